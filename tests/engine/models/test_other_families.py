"""Models of other families, whole: loaded by file, wrapped, and run."""

import copy

import numpy as np
import pytest
import timm
import torch
from open_clip import factory, timm_model
from open_clip.coca_model import CoCa
from open_clip.model import CustomTextCLIP
from safetensors.torch import save_file

from napari_maskinversion import MaskInverter, load_model, wrap_open_clip
from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.engine.methods.dense import class_token_tower
from tests.engine.tiny import snapshot
from tests.engine.towers import masks

FAMILIES = ("EVA02-B-16", "PE-Core-T-16-384", "coca_ViT-B-32")


@pytest.fixture
def cut(monkeypatch):
    """Let open_clip build an architecture with one layer, and give such a module."""
    make = timm.create_model
    monkeypatch.setattr(
        timm_model.timm, "create_model", lambda *args, **more: make(*args, depth=1, **more)
    )

    def build(architecture):
        config = copy.deepcopy(factory._MODEL_CONFIGS[architecture])
        config["text_cfg"].update(layers=1, width=32, heads=2)
        if "multimodal_cfg" in config:
            config["multimodal_cfg"].update(layers=1, width=32, heads=2)
        if "timm_model_name" not in config["vision_cfg"]:
            config["vision_cfg"].update(layers=1, width=64, head_width=32)
        monkeypatch.setitem(factory._MODEL_CONFIGS, architecture, copy.deepcopy(config))
        config.pop("custom_text", None)
        torch.manual_seed(0)
        if "multimodal_cfg" not in config:
            return CustomTextCLIP(**config).eval()
        clip = CoCa(**config).eval()
        # open_clip leaves this matrix as the memory was, at times NaN.
        torch.nn.init.normal_(clip.text_decoder.text_projection)
        return clip

    return build


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_checkpoint_gives_what_open_clip_gives(cut, tmp_path, architecture):
    clip = cut(architecture)
    save_file({k: v.contiguous() for k, v in clip.state_dict().items()}, tmp_path / "w.safetensors")
    before = torch.get_rng_state()
    model = load_model(tmp_path / "w.safetensors", architecture=architecture, device="cpu")
    assert torch.equal(before, torch.get_rng_state())
    side = model.native_resolution
    image = torch.randn(1, 3, side, side)
    inverter = MaskInverter(model)
    inverter.set_image_tensor(image)
    with torch.no_grad():
        expected = clip.encode_image(image, normalize=False)[0]
        text = clip.encode_text(model._default_tokenizer()(["a cat"]), normalize=True)[0]
    embedding = inverter.image_embedding
    if isinstance(clip, CoCa):
        embedding = embedding / np.linalg.norm(embedding)
        expected = expected / expected.norm()
    np.testing.assert_allclose(embedding, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(model.encode_text(["a cat"])[0], text.numpy(), atol=1e-5)
    assert model.fingerprint
    crops = model.embed_images(torch.cat([image, image.flip(3)])).numpy()
    np.testing.assert_allclose(crops[0], inverter.image_embedding, atol=1e-5)
    with pytest.raises(ModelError, match="class token"):
        class_token_tower(model, "MaskCLIP")


def test_siglip_is_wrapped_with_its_tokenizer_and_corrected(cut):
    clip = cut("ViT-B-16-SigLIP")
    asked = []

    def tokenizer(texts):
        asked.extend(texts)
        return torch.tensor([[len(text), *range(1, clip.context_length)] for text in texts])

    before = snapshot(clip)
    model = wrap_open_clip(clip, tokenizer=tokenizer)
    inverter = MaskInverter(model)
    inverter.set_image(np.random.default_rng(0).random((64, 96, 3)), resolution=80)
    assert asked == ["a photo of a"]
    result = inverter.invert(masks(2, 64, 96))
    assert (result.losses.min(1) < result.losses[:, 0]).all()
    assert (result.grid_maps == 0).any(axis=(1, 2)).all()
    assert snapshot(clip) == before


def test_siglip_without_a_tokenizer_says_that_it_is_not_corrected(cut, caplog):
    inverter = MaskInverter(wrap_open_clip(cut("ViT-B-16-SigLIP")))
    inverter.set_image(np.zeros((64, 64, 3)), resolution=64)
    assert "not corrected" in caplog.text


def test_a_tower_of_windows_is_refused(cut):
    with pytest.raises(ModelError, match="is timm's VisionTransformerRelPos"):
        wrap_open_clip(cut("vit_relpos_medium_patch16_cls_224"))
