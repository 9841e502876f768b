"""SAM 3: words to regions, as transformers finds them; in find, and refused elsewhere."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate
from transformers import CLIPTokenizerFast, Sam3ImageProcessor, Sam3Model, Sam3Processor

from napari_maskinversion import find_regions
from napari_maskinversion.base.errors import ConfigError, InputError, ModelError
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.regions.sam import sam3
from napari_maskinversion.regions.sam.prompts import AutomaticConfig
from napari_maskinversion.regions.sam.sam_checkpoints import (
    file_or_checkpoint,
    get_checkpoint,
    on_disk,
    sam3_folder,
)
from napari_maskinversion.regions.sam.sam_loading import load_proposer

from .tiny import SIDE3, save_sam3


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return save_sam3(tmp_path_factory.mktemp("sam3") / "mine")


@pytest.fixture(scope="session")
def square():
    return np.random.default_rng(4).integers(0, 255, (SIDE3, SIDE3, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def any_score(monkeypatch):
    """Random weights are sure of nothing."""
    monkeypatch.setattr(sam3, "_SCORE", 0.0)


def full(region, shape):
    mask = np.zeros(shape, bool)
    y0, x0, y1, x1 = region.bbox
    mask[y0:y1, x0:x1] = region.mask
    return mask


def test_regions_and_scores_are_those_of_transformers(folder, square):
    found = (
        load_proposer(folder, "cpu")
        .asked(["red cell"])
        .segment_everything(as_source(square), AutomaticConfig())
    )
    processor = Sam3Processor(
        Sam3ImageProcessor(size={"height": SIDE3, "width": SIDE3}),
        CLIPTokenizerFast.from_pretrained(folder),
    )
    inputs = processor(images=square, text="red cell", return_tensors="pt")
    with torch.no_grad():
        answer = Sam3Model.from_pretrained(folder).eval()(
            **{name: inputs[name] for name in ("pixel_values", "input_ids", "attention_mask")}
        )
    # Its post-processing enlarges probabilities, which moves outlines by a part of a pixel.
    masks = interpolate(answer.pred_masks, (SIDE3, SIDE3), mode="bilinear")[0].numpy() > 0
    scores = (answer.pred_logits.sigmoid() * answer.presence_logits.sigmoid())[0].tolist()
    theirs = {round(s, 4): mask for s, mask in zip(scores, masks, strict=True) if mask.any()}
    ours = {round(one.scores[0], 4): full(one.region(), (SIDE3, SIDE3)) for one in found}
    assert ours.keys() == theirs.keys()
    assert ours
    for score, mask in ours.items():
        assert (mask == theirs[score]).mean() > 0.999


def test_find_keeps_every_region_that_sam_3_found_for_the_words(folder, square):
    concepts = load_proposer(folder, "cpu")
    found = find_regions(square, "cell", model="demo", segmenter=concepts, method="crop")
    proposed = concepts.asked(["cell"]).segment_everything(as_source(square), AutomaticConfig())
    assert f"proposed {len(proposed)} regions" in found.how
    masks = [full(one.region(), (SIDE3, SIDE3)) for one in proposed]
    for region in found.regions:
        assert any((full(region, (SIDE3, SIDE3)) == mask).all() for mask in masks)
    assert len(found.regions) == len(proposed)  # also those that others cover
    with pytest.raises(ConfigError, match="SAM 3 takes words"):
        find_regions(square, np.eye(SIDE3, dtype=bool), model="demo", segmenter=concepts)


def test_words_that_nothing_in_the_image_is_are_said(folder, square, monkeypatch):
    monkeypatch.setattr(sam3, "_SCORE", 1.0)
    with pytest.raises(InputError, match="mine finds no 'cell' in the image"):
        find_regions(square, "cell", model="demo", segmenter=load_proposer(folder, "cpu"))


def test_a_folder_at_its_place_is_used_for_words_alone(folder):
    with pytest.raises(ModelError, match=r"accept its licence.*copy it to .*sam3"):
        get_checkpoint("facebook/sam3")
    assert on_disk("cell") is None
    shutil.copytree(folder, sam3_folder())
    assert on_disk("cell") == file_or_checkpoint("sam3", words=True) == sam3_folder()
    assert on_disk() is None


def test_boxes_and_points_are_refused_before_anything_is_loaded(folder):
    with pytest.raises(ModelError, match="holds SAM 3, which finds regions by words"):
        file_or_checkpoint(str(folder))


def test_a_folder_without_its_tokenizer_is_refused(folder, tmp_path):
    mine = shutil.copytree(folder, tmp_path / "mine")
    (mine / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="has a tokenizer that cannot be read"):
        load_proposer(mine, "cpu")
    (mine / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"not whole: tokenizer\.json is missing"):
        file_or_checkpoint(str(mine), words=True)


def test_the_command_line_finds_with_a_folder(call, folder, square, tmp_path):
    Image.fromarray(square).save(tmp_path / "cells.png")
    out = tmp_path / "found"
    code, _, told = call(
        "find", tmp_path / "cells.png", "cell", "--checkpoint", folder, "--steps", 1, "--out", out
    )
    assert code == 0, told
    assert "mine proposed" in told
    assert np.asarray(Image.open(out / "labels.tif")).max() >= 1
    code, _, told = call("segment", tmp_path / "cells.png", "--automatic", "--checkpoint", folder)
    assert code == 2
    assert "boxes and points need SAM 1 or SAM 2" in told
