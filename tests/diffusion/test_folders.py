"""What is missing in a decoder's folder, or does not fit, is said before anything is loaded."""

import json

import pytest
import torch

from napari_maskinversion.base.errors import MaskInversionError, ModelError
from napari_maskinversion.diffusion.decoders import (
    DECODERS,
    count_parameters,
    default_folder,
    open_folder,
    prior_file,
)
from tests import tiny_decoders

KANDINSKY = DECODERS["kandinsky22"]


def refusal(*arguments):
    with pytest.raises(MaskInversionError) as caught:
        open_folder(*arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_whole_folder_tells_width_model_and_size(kandinsky_folder, unclip_folder):
    folder = open_folder(KANDINSKY, kandinsky_folder)
    assert (folder.width, folder.clip_model, folder.most_steps) == (128, "demo", 1000)
    own = [kandinsky_folder / part / "diffusion_pytorch_model.safetensors" for part in ("unet",)]
    assert folder.parameters > count_parameters(own[0]) > 100_000
    assert open_folder(DECODERS["unclip-l"], unclip_folder).width == 128


@pytest.mark.parametrize("name", list(DECODERS))
def test_missing_weights_are_named_with_place_size_and_command(name):
    decoder = DECODERS[name]
    text = refusal(decoder)
    place = str(default_folder(decoder))
    assert f"put these files of {decoder.repository}" in text
    assert f"hf download {decoder.repository} --local-dir {place} unet/config.json" in text
    assert "unet/diffusion_pytorch_model.safetensors" in text
    assert {"kandinsky22": "5.3 GB", "unclip-h": "5.2 GB", "unclip-l": "5.2 GB"}[name] in text


def test_of_a_half_filled_folder_only_the_rest_is_asked_for(broken):
    (broken / "movq" / "diffusion_pytorch_model.safetensors").unlink()
    text = refusal(KANDINSKY, broken)
    assert "not complete" in text
    assert text.endswith(f"--local-dir {broken} movq/diffusion_pytorch_model.safetensors")
    assert "271 MB" in text or "270 MB" in text


def test_weights_that_can_run_code_are_not_read(broken):
    weights = broken / "unet" / "diffusion_pytorch_model.safetensors"
    weights.unlink()
    torch.save({"weight": torch.zeros(1)}, weights.with_suffix(".bin"))
    assert "unet/diffusion_pytorch_model.safetensors" in refusal(KANDINSKY, broken)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("unet/config.json", "{", "broken JSON"),
        ("unet/config.json", '{"_class_name": "UNet2DConditionModel"}', "takes no image embedd"),
        ("movq/diffusion_pytorch_model.safetensors", "cut off", "damaged or no safetensors"),
    ],
)
def test_a_foreign_or_damaged_file_is_named(broken, file, content, says):
    (broken / file).write_text(content)
    text = refusal(KANDINSKY, broken)
    assert says in text
    assert str(broken) in text


def test_a_unet_of_the_other_kind_is_refused(unclip_folder, broken):
    config = json.loads((unclip_folder / "unet/config.json").read_text())
    (broken / "unet/config.json").write_text(json.dumps(config))
    assert "takes no image embeddings as Kandinsky 2.2 does" in refusal(KANDINSKY, broken)


@pytest.mark.parametrize(
    ("name", "width", "says"),
    [
        ("ViT-B-16/openai", None, "not of ViT-B-16/openai; use that model."),
        ("ViT-L-14/openai", None, "or the decoder unclip-l"),
        ("own-weights", 64, r"own-weights \(64 values\)"),
        ("ViT-L-14/laion2b_s32b_b82k", 128, "use that model"),  # as wide, but another space
    ],
)
def test_embeddings_of_another_model_are_refused(kandinsky_folder, name, width, says):
    with pytest.raises(ModelError, match=says):
        open_folder(KANDINSKY, kandinsky_folder).check_model(name, width)


def test_embeddings_of_the_right_model_pass(kandinsky_folder):
    folder = open_folder(KANDINSKY, kandinsky_folder)
    folder.check_model("demo")
    folder.check_model("own-weights", 128)


def test_a_missing_prior_is_named_with_place_and_size(tmp_path):
    with pytest.raises(ModelError, match=r"139 MB.*Lambda-ECLIPSE-Prior-v1.0 --local-dir"):
        prior_file()
    folder = tiny_decoders.prior(tmp_path)
    assert prior_file(folder) == folder / "diffusion_pytorch_model.safetensors"
