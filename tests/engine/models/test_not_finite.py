"""Weights and embeddings that are not finite are refused where they arise."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from napari_maskinversion import MaskInverter, load_model, region_embedder
from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.engine.models.loading import wrap_open_clip
from napari_maskinversion.engine.models.specs import WEIGHTS_FILE, bundled_folder
from tests.scenes import picture, regions


@pytest.mark.parametrize(
    ("name", "value"), [("visual.conv1.weight", float("nan")), ("logit_scale", -float("inf"))]
)
def test_a_checkpoint_with_one_number_that_is_not_finite_is_refused(tmp_path, name, value):
    folder = shutil.copytree(bundled_folder(), tmp_path / "model")
    weights = load_file(folder / WEIGHTS_FILE)
    flat = weights[name].clone().reshape(-1)
    flat[-1] = value
    weights[name] = flat.reshape(weights[name].shape)
    save_file(weights, folder / WEIGHTS_FILE)
    with pytest.raises(ModelError, match=rf"{WEIGHTS_FILE}.*1 tensor is not finite .*{name}"):
        load_model(folder, device="cpu")


@pytest.fixture
def broken():
    """A module that the user loaded, with a broken weight in each tower."""
    model = load_model("demo", device="cpu")
    clip = wrap_open_clip(model.clip, tokenizer=model.tokenizer).clip
    with torch.no_grad():
        clip.visual.transformer.resblocks[0].mlp.c_fc.weight[0, 0] = torch.nan
        clip.transformer.resblocks[0].mlp.c_fc.weight[0, 0] = torch.nan
    return wrap_open_clip(clip, tokenizer=model.tokenizer)


def test_texts_that_become_no_numbers_are_refused(broken):
    with pytest.raises(ModelError, match="not finite"):
        broken.encode_text(["a car"])


@pytest.mark.parametrize("method", ["maskinversion", "cls", "crop"])
def test_regions_that_become_no_numbers_are_refused(broken, method):
    made = MaskInverter(broken) if method == "maskinversion" else region_embedder(method, broken)
    made.set_image(picture())
    with pytest.raises(ModelError, match="not finite"):
        made.embed(regions(2))
