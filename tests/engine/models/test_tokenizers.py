"""Models whose tokenizer is not CLIP's own, loaded by name; transformers is played."""

import copy
import sys

import numpy as np
import open_clip
import pytest
import timm
import torch
from open_clip import factory, timm_model
from open_clip.model import CustomTextCLIP
from safetensors.torch import save_file

from napari_maskinversion import MaskInverter, list_models, load_model
from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.engine.models import loading
from napari_maskinversion.engine.models.openclip import tokenizer_of
from napari_maskinversion.engine.models.registry import get_spec

NAME = "ViT-B-16-SigLIP/webli"
PLAYED = """
class AutoTokenizer:
    asked = []
    def from_pretrained(name, **settings):
        AutoTokenizer.asked.append((name, settings))
        if settings["local_files_only"]:
            raise OSError("not in the cache")
        return AutoTokenizer()
    def __call__(self, texts, max_length, **settings):
        rows = [[1 + ord(c) % 90 for c in t][:max_length] for t in texts]
        import torch
        rows = torch.tensor([r + [0] * (max_length - len(r)) for r in rows])
        return type("Found", (), {"input_ids": rows})
"""


@pytest.fixture
def transformers(tmp_path, monkeypatch):
    """A package of that name, with all that open_clip's tokenizers ask of it."""
    (tmp_path / "played" / "transformers").mkdir(parents=True)
    (tmp_path / "played" / "transformers" / "__init__.py").write_text(PLAYED)
    monkeypatch.syspath_prepend(tmp_path / "played")
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    import transformers

    yield transformers.AutoTokenizer
    sys.modules.pop("transformers")


@pytest.fixture
def siglip(tmp_path, monkeypatch):
    """A small SigLIP of random weights where the model's would be; its open_clip module."""
    make = timm.create_model
    small = {"depth": 1, "embed_dim": 32, "num_heads": 2, "img_size": 64}
    monkeypatch.setattr(
        timm_model.timm, "create_model", lambda *args, **more: make(*args, **{**more, **small})
    )
    config = copy.deepcopy(factory._MODEL_CONFIGS["ViT-B-16-SigLIP"])
    config["embed_dim"] = 32
    config["vision_cfg"]["image_size"] = 64
    config["text_cfg"].update(layers=1, width=32, heads=2)
    monkeypatch.setitem(factory._MODEL_CONFIGS, "ViT-B-16-SigLIP", copy.deepcopy(config))
    config.pop("custom_text", None)
    torch.manual_seed(0)
    clip = CustomTextCLIP(**config).eval()
    file = tmp_path / "open_clip_model.safetensors"
    save_file({key: value.contiguous() for key, value in clip.state_dict().items()}, file)
    monkeypatch.setattr(loading, "weights_on_disk", lambda spec: file)
    return clip


def test_a_model_with_a_tokenizer_of_its_own_is_loaded_by_name(siglip, transformers, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    model = load_model(NAME, device="cpu")
    assert transformers.asked == []  # not before there is a text
    embeddings = model.encode_text(["A cat!", "a DOG"])
    assert [name for name, _ in transformers.asked] == ["timm/ViT-B-16-SigLIP"]
    tokens = open_clip.get_tokenizer("ViT-B-16-SigLIP", local_files_only=False)(["A cat!", "a DOG"])
    with torch.no_grad():
        expected = siglip.encode_text(tokens, normalize=True).numpy()
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)
    inverter = MaskInverter(model)
    inverter.set_image(np.random.default_rng(0).random((64, 64, 3)))
    masks = np.zeros((1, 64, 64), bool)
    masks[0, :32, :32] = True
    corrected = {}
    for explainer in ("legrad", "chefer"):
        corrected[explainer] = inverter.explain(embeddings, explainer=explainer)
        assert (corrected[explainer] == 0).any(axis=(1, 2)).all()


def test_without_transformers_the_model_is_refused_before_it_is_fetched(siglip, monkeypatch):
    monkeypatch.setattr("napari_maskinversion.engine.models.openclip.find_spec", lambda name: None)

    def fetched(*_, **__):
        raise AssertionError("fetched")

    monkeypatch.setattr(loading, "weights_on_disk", lambda spec: None)
    monkeypatch.setattr(loading, "fetch", fetched)
    with pytest.raises(ModelError, match=r"timm/ViT-B-16-SigLIP, which needs .*transformers"):
        load_model(NAME, device="cpu")


def test_offline_a_missing_tokenizer_is_told_before_anything_is_loaded(
    siglip, transformers, monkeypatch
):
    def assemble(*_):
        raise AssertionError("loaded")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(loading, "_assemble", assemble)
    with pytest.raises(OfflineError, match="tokenizer timm/ViT-B-16-SigLIP of .* offline mode"):
        load_model(NAME, device="cpu")


def test_offline_a_tokenizer_that_transformers_keeps_is_used(siglip, transformers, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: "tokenizer.json")
    model = load_model(NAME, device="cpu")
    with pytest.raises(OfflineError, match="not on this machine, and offline mode"):
        model.encode_text(["a cat"])
    assert transformers.asked[-1][1]["local_files_only"] is True


def test_a_tokenizer_that_cannot_be_read_is_told(siglip, transformers, monkeypatch):
    def broken(*_, **__):
        raise ImportError("SentencePiece\nis missing")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(transformers, "from_pretrained", broken)
    with pytest.raises(ModelError, match="cannot be read: SentencePiece is missing"):
        load_model(NAME, device="cpu").encode_text(["a cat"])


def test_clips_own_tokenizer_is_never_fetched():
    for spec in list_models():
        if not (spec.bundled or spec.tokenizer):
            config = copy.deepcopy(factory._MODEL_CONFIGS[spec.architecture])
            assert tokenizer_of(spec.name, config) is None
    assert get_spec("ViT-B-16-SigLIP2/webli").architecture == "ViT-B-16-SigLIP2"
