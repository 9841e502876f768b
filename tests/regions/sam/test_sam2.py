"""SAM 2 says what transformers says, from a folder, and refuses what it cannot load in a line."""

import json
import re
import shutil
import socket

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Sam2ImageProcessor, Sam2Model

from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.regions.sam import folders
from napari_maskinversion.regions.sam.prompts import AutomaticConfig, Prompt
from napari_maskinversion.regions.sam.sam_checkpoints import (
    CheckpointSpec,
    fetch_checkpoint,
    file_or_checkpoint,
)
from napari_maskinversion.regions.sam.sam_loading import load_segmenter

from .tiny import SIDE, save_tiny, tiny_sam2

BOX = (10.0, 12.0, 40.0, 50.0)
POINTS = ((20.0, 30.0), (35.0, 15.0))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """As the model hub has it: the type of the model for videos."""
    path = tmp_path_factory.mktemp("sam2") / "sam2.1-tiny"
    tiny_sam2().save_pretrained(path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"model_type": "sam2_video"}))
    return path


@pytest.fixture(scope="session")
def square():
    return np.random.default_rng(4).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)


def full(region, shape=(SIDE, SIDE)):
    mask = np.zeros(shape, bool)
    if region is not None:
        y0, x0, y1, x1 = region.bbox
        mask[y0:y1, x0:x1] = region.mask
    return mask


def theirs(folder, image, *, box=None, points=(), labels=()):
    """Masks and scores of the model's own forward pass, by score."""
    model = Sam2Model.from_pretrained(folder)
    model.mask_decoder.dynamic_multimask_via_stability = False
    processor = Sam2ImageProcessor(size={"height": SIDE, "width": SIDE})
    inputs = processor(image, return_tensors="pt")
    prompts = {}
    if points:
        prompts["input_points"] = torch.tensor([[[(x, y) for y, x in points]]])
        prompts["input_labels"] = torch.tensor([[labels]])
    if box is not None:
        prompts["input_boxes"] = torch.tensor([[[box[1], box[0], box[3], box[2]]]])
    masks, scores = [], []
    for several in (True, False) if box is not None or len(points) > 1 else (True,):
        with torch.no_grad():
            out = model(inputs.pixel_values, **prompts, multimask_output=several)
        masks += processor.post_process_masks(out.pred_masks, inputs.original_sizes)[0][0]
        scores += out.iou_scores[0, 0].tolist()
    order = np.argsort(scores)[::-1]
    return [masks[i].numpy() for i in order], [scores[i] for i in order]


@pytest.mark.parametrize("kind", ["box", "point", "several"])
def test_masks_and_scores_are_those_of_transformers(folder, square, kind):
    prompt, asked = {
        "box": (Prompt(id=1, boxes=(BOX,)), {"box": BOX}),
        "point": (Prompt(id=1, positive=POINTS[:1]), {"points": POINTS[:1], "labels": [1]}),
        "several": (
            Prompt(id=1, boxes=(BOX,), positive=POINTS[:1], negative=POINTS[1:]),
            {"box": BOX, "points": POINTS, "labels": [1, 0]},
        ),
    }[kind]
    (segmented,) = load_segmenter(folder, "cpu").segment(as_source(square), [prompt])
    masks, scores = theirs(folder, square, **asked)
    np.testing.assert_allclose(segmented.scores, scores, atol=1e-5)
    for index, mask in enumerate(masks):
        assert (full(segmented.region(index)) != mask).mean() < 1e-3
    assert any(0 < mask.mean() < 1 for mask in masks)


def test_an_image_of_another_shape_is_stretched_to_the_square(folder):
    image = np.random.default_rng(5).integers(0, 255, (32, SIDE, 3), dtype=np.uint8)
    segmenter = load_segmenter(folder / "model.safetensors", "cpu")
    (one,) = segmenter.segment(as_source(image), [Prompt(id=1, positive=((10.0, 30.0),))])
    masks, scores = theirs(folder, image, points=((20.0, 30.0),), labels=[1])
    np.testing.assert_allclose(one.scores, scores, atol=0.01)
    for index in range(3):
        ours = full(one.region(index), (32, SIDE))
        assert max((ours == mask).mean() for mask in masks) > 0.97


def test_everything_is_found_by_a_grid_of_points(folder, square):
    config = AutomaticConfig(points_per_side=3, score=0, stability=0, overlap=1.0)
    segmenter = load_segmenter(folder, "cpu")
    found = segmenter.segment_everything(as_source(square), config)
    grid = [(SIDE * (i + 0.5) / 3, SIDE * (j + 0.5) / 3) for i in range(3) for j in range(3)]
    prompts = [Prompt(id=i, positive=(point,)) for i, point in enumerate(grid, 1)]
    alone = [
        full(one.region(i))
        for one in segmenter.segment(as_source(square), prompts)
        for i in range(3)
    ]
    assert found
    for one in found:
        assert any((full(one.region()) == mask).mean() > 0.99 for mask in alone)


# -- what cannot be loaded --------------------------------------------------------------------


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "mine")


def refused(path, says):
    with pytest.raises(ModelError, match=says) as error:
        load_segmenter(file_or_checkpoint(str(path)), "cpu")
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_whole_is_refused(copy):
    weights = copy / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1000])
    refused(copy, "mine cannot be loaded")
    weights.unlink()
    refused(copy, "mine cannot be loaded .*; download the folder again")
    (copy / "config.json").unlink()
    refused(copy, "no folder of SAM 2 or SAM 3, or not whole")


def test_weights_that_lack_tensors_or_have_other_shapes_are_refused(copy):
    weights = copy / "model.safetensors"
    state = load_file(weights)
    name = "mask_decoder.iou_token.weight"
    save_file({key: value for key, value in state.items() if key != name}, weights)
    refused(copy, re.escape(name))
    save_file(state | {name: torch.zeros(1, 3)}, weights)
    refused(copy, "cannot be loaded")


def test_a_folder_of_another_model_is_refused_by_its_type(copy):
    (copy / "config.json").write_text('{"model_type": "clip"}')
    refused(copy, "type 'clip', not SAM 2 or SAM 3")


def test_without_transformers_one_line_says_what_to_install(copy, monkeypatch):
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    for text in (copy, "sam2.1-hiera-tiny"):
        with pytest.raises(ModelError, match=r"pip install \"napari-maskinversion\[sam2\]\""):
            file_or_checkpoint(str(text))
    monkeypatch.undo()
    monkeypatch.setattr(folders, "version", lambda name: "4.50.0")
    with pytest.raises(ModelError, match=r"transformers, 4\.57 or newer"):
        file_or_checkpoint("facebook/sam2.1-hiera-large")


# -- download ---------------------------------------------------------------------------------


def test_it_is_fetched_by_name_and_works_offline_afterwards(hub, folder, square, monkeypatch):
    for file in ("config.json", "model.safetensors"):
        hub.files[("facebook/sam2.1-hiera-tiny", file)] = (folder / file).read_bytes()
    spec = file_or_checkpoint("facebook/SAM2.1-hiera-tiny")
    assert isinstance(spec, CheckpointSpec)
    assert (spec.state, spec.size_text) == ("to fetch", "156 MB")
    path = fetch_checkpoint(spec)
    assert spec.is_on_disk

    def refuse(*_, **__):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert fetch_checkpoint(spec) == path
    segmenter = load_segmenter(path, "cpu")
    assert segmenter.name == "sam2.1-hiera-tiny"
    assert segmenter.segment(as_source(square), [Prompt(id=1, boxes=(BOX,))])[0].candidates


def test_offline_a_checkpoint_that_is_not_here_is_refused(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(OfflineError, match=r"sam2\.1-hiera-small \(184 MB\) is not complete"):
        fetch_checkpoint(file_or_checkpoint("sam2.1-hiera-small"))


def test_a_file_of_sam_1_is_still_one(tmp_path):
    assert load_segmenter(save_tiny(tmp_path / "sam.pth"), "cpu").side == SIDE
