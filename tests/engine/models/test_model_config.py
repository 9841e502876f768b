"""The configuration of a model folder: each value is checked before anything is built."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.engine.models import openclip
from napari_maskinversion.engine.models.loading import load_model, spec_of
from napari_maskinversion.engine.models.specs import CONFIG_FILE, WEIGHTS_FILE, bundled_folder


@pytest.fixture
def changed(tmp_path):
    """A function that copies the bundled model with one value changed."""

    def change(key, value):
        config = json.loads((bundled_folder() / CONFIG_FILE).read_text("utf-8"))
        place = config
        *parents, name = key.split(".")
        for parent in parents:
            place = place[parent]
        place[name] = value
        (tmp_path / CONFIG_FILE).write_text(json.dumps(config))
        (tmp_path / WEIGHTS_FILE).symlink_to(bundled_folder() / WEIGHTS_FILE)
        return tmp_path

    return change


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model_cfg.vision_cfg.layers", 1_000_000, "must be less than or equal to 500"),
        ("model_cfg.vision_cfg.patch_size", "x", "must be a valid integer; got 'x'"),
        ("model_cfg.vision_cfg.foo", 1, "There is no setting 'model_cfg.vision_cfg.foo'"),
        ("preprocess_cfg.std", [0.5, 0.5, 0], "preprocess_cfg.std.2 must be greater than 0"),
        ("preprocess_cfg.mean", [0.5, 0.5], "preprocess_cfg.mean.2 is missing"),
        ("preprocess_cfg.interpolation", "nearest", "must be 'bicubic' or 'bilinear'"),
    ],
)
def test_a_wrong_value_is_named_by_file_and_key(changed, key, value, says, monkeypatch):
    monkeypatch.setattr(openclip, "build", lambda *_, **__: pytest.fail("a model was built"))
    with pytest.raises(ModelError, match=CONFIG_FILE) as refusal:
        load_model(changed(key, value))
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]"])
def test_what_is_no_configuration_is_refused_in_one_line(tmp_path, text):
    (tmp_path / CONFIG_FILE).write_text(text)
    with pytest.raises(ModelError, match=f"not a model folder: .*{CONFIG_FILE}"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("vision_cfg.head_width", 999, "cannot be built, its sizes do not fit"),
        ("text_cfg.pool_type", "x", "cannot be built, its sizes do not fit"),
        ("text_cfg.vocab_size", 10**12, "its vocabulary of 1000000000000 tokens is not CLIP's"),
        ("vision_cfg.image_size", 10**9, "does not fit the architecture .*positional_embedding"),
    ],
)
def test_sizes_that_no_module_or_other_weights_have_are_refused(changed, key, value, says):
    with pytest.raises(ModelError, match=says):
        load_model(changed(f"model_cfg.{key}", value))


def test_a_configuration_cannot_ask_for_foreign_code(changed):
    """transformers runs code of a tokenizer's repository if it is told to trust it."""
    with pytest.raises(ModelError, match=r"no setting .*tokenizer_kwargs\.trust_remote_code"):
        load_model(changed("model_cfg.text_cfg.tokenizer_kwargs", {"trust_remote_code": True}))


@pytest.mark.parametrize("read", [load_model, spec_of])
def test_a_folder_has_an_architecture_of_its_own(read):
    with pytest.raises(ModelError, match="'ViT-L-14' is for checkpoint files; 'weights' has its"):
        read(bundled_folder(), architecture="ViT-L-14")


def test_a_folder_may_have_torch_weights_alone(tmp_path):
    (tmp_path / CONFIG_FILE).symlink_to(bundled_folder() / CONFIG_FILE)
    weights = load_file(bundled_folder() / WEIGHTS_FILE)
    torch.save(weights, tmp_path / "open_clip_pytorch_model.bin")
    expected = load_model("demo", device="cpu").encode_text(["a cat"])
    np.testing.assert_array_equal(load_model(tmp_path).encode_text(["a cat"]), expected)
    # Nothing else is read where there is a safetensors file.
    (tmp_path / WEIGHTS_FILE).write_bytes(b"damaged")
    with pytest.raises(ModelError, match=f"{WEIGHTS_FILE} is damaged"):
        load_model(tmp_path)
