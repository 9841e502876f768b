"""Models in use: texts in, the caller's module untouched, no network for the bundled model."""

import warnings

import numpy as np
import pytest
import torch
from open_clip.tokenizer import SimpleTokenizer
from open_clip.transform import PreprocessCfg, image_transform_v2

from napari_maskinversion.base.errors import InputError, ModelError
from napari_maskinversion.engine.models.loading import load_model, wrap_open_clip
from napari_maskinversion.engine.models.registry import fetch, get_spec
from tests.engine.tiny import snapshot, tiny_clip


@pytest.fixture(scope="module")
def model():
    return wrap_open_clip(tiny_clip())


# The bundled model


def test_the_bundled_model_loads_and_reads_texts_without_a_network(no_network, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        demo = load_model("demo", device="cpu")
        vectors = demo.encode_text(["a photo of a car", "a drawing of an apple"])
        demo.preprocess(np.zeros((40, 60, 3), np.uint8))
    assert capfd.readouterr() == ("", "")
    assert vectors.shape == (2, demo.embed_dim)


def test_the_bundled_model_is_what_its_table_entry_says():
    demo = load_model(device="cpu")
    assert demo.name == "demo"
    assert demo.spec == get_spec("demo")
    assert demo.native_resolution == demo.spec.native_resolution
    assert demo.working_resolution == demo.spec.working_resolution
    assert (demo.mean, demo.std) == (demo.spec.mean, demo.spec.std)
    assert demo.spec.size_mb == round(fetch("demo").stat().st_size / 1e6)
    assert not any(p.requires_grad for p in demo.clip.parameters())


def test_loading_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    load_model(device="cpu")
    assert torch.equal(torch.rand(3), expected)


# Texts


def test_texts_become_unit_vectors_as_open_clip_makes_them(model):
    texts = ["a photo of a dog", "Ein Hund", ""]
    with torch.no_grad():
        expected = model.clip.encode_text(SimpleTokenizer()(texts), normalize=True)
    vectors = model.encode_text(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-6)


def test_a_text_does_not_depend_on_the_others_nor_on_its_batch(model):
    many = [f"thing number {i}" for i in range(150)]
    fresh = wrap_open_clip(model.clip)
    together = fresh.encode_text([*many, many[3]])
    alone = wrap_open_clip(model.clip).encode_text([many[140]])
    np.testing.assert_allclose(together[140], alone[0], atol=1e-6)
    np.testing.assert_array_equal(together[3], together[150])


def test_texts_may_come_from_a_generator(model):
    vectors = model.encode_text(f"a {animal}" for animal in ("cat", "dog"))
    np.testing.assert_array_equal(vectors, model.encode_text(["a cat", "a dog"]))


def test_no_texts_give_no_vectors(model):
    assert model.encode_text([]).shape == (0, model.embed_dim)


@pytest.mark.parametrize("texts", ["a dog", ["a dog", 3]])
def test_what_is_no_list_of_texts_is_refused(model, texts):
    with pytest.raises(InputError):
        model.encode_text(texts)


def test_texts_are_encoded_again_after_the_caller_trained_the_module():
    clip = tiny_clip()
    model = wrap_open_clip(clip)
    before, mark = model.encode_text(["a dog"]), model.fingerprint
    with torch.no_grad():
        clip.text_projection.add_(0.5 * torch.randn_like(clip.text_projection))
    assert np.abs(model.encode_text(["a dog"]) - before).max() > 1e-3
    assert model.fingerprint != mark


def test_a_vocabulary_of_its_own_needs_its_own_tokenizer():
    clip = tiny_clip()
    clip.vocab_size = 100
    with pytest.raises(ModelError, match="tokenizer="):
        wrap_open_clip(clip).encode_text(["a dog"])
    tokens = torch.zeros(1, 77, dtype=torch.long)
    assert wrap_open_clip(clip, tokenizer=lambda texts: tokens).encode_text(["a dog"]).shape


# The caller's module


@pytest.mark.parametrize(("training", "frozen"), [(False, False), (True, True)])
def test_the_callers_module_stays_bit_for_bit_what_it_was(training, frozen):
    clip = tiny_clip(patch_dropout=0.5).train(training)
    clip.requires_grad_(not frozen)
    handle = clip.visual.register_forward_hook(lambda module, args, output: None)
    before = snapshot(clip)

    model = wrap_open_clip(clip)
    model.fingerprint  # noqa: B018
    model.encode_text(["a dog"])
    with torch.no_grad():
        model.clip.visual(model.preprocess(np.zeros((40, 40, 3), np.uint8), resolution=32))
    with pytest.raises(RuntimeError):
        wrap_open_clip(clip, tokenizer=_failing).encode_text(["a dog"])

    assert snapshot(clip) == before
    handle.remove()


def _failing(texts):
    raise RuntimeError("no tokens today")


def test_a_module_in_training_mode_is_used_as_in_evaluation_mode():
    clip = tiny_clip(patch_dropout=0.5)
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = clip.visual(x)
        clip.train()
        model = wrap_open_clip(clip)
        torch.testing.assert_close(model.clip.visual(x), expected)
    assert not any(m.training for m in model.clip.modules())
    assert all(m.training for m in clip.modules())
    shared = {p.data_ptr() for p in clip.parameters()}
    assert {p.data_ptr() for p in model.clip.parameters()} == shared


def test_an_evaluation_module_is_used_itself():
    clip = tiny_clip()
    assert wrap_open_clip(clip).clip is clip


def test_normalisation_comes_from_the_given_transform_or_the_module():
    clip = tiny_clip()
    assert wrap_open_clip(clip).mean[0] == pytest.approx(0.48145466)
    transform = image_transform_v2(PreprocessCfg(mean=(0.1, 0.2, 0.3)), is_train=False)
    assert wrap_open_clip(clip, preprocess=transform).mean == (0.1, 0.2, 0.3)
    clip.visual.preprocess_cfg = {"mean": [0.5] * 3, "std": [0.25] * 3, "interpolation": "bilinear"}
    model = wrap_open_clip(clip)
    assert (model.mean, model.std) == ((0.5,) * 3, (0.25,) * 3)
    assert model.interpolation == "bilinear"


def test_a_transform_without_normalisation_is_refused():
    with pytest.raises(ModelError, match="no normalisation"):
        wrap_open_clip(tiny_clip(), preprocess=lambda image: image)


def test_a_module_on_another_device_is_refused_not_moved():
    clip = tiny_clip().to("meta")
    with pytest.raises(ModelError, match="is on meta, not on cpu"):
        wrap_open_clip(clip)
    assert clip.visual.proj.is_meta
