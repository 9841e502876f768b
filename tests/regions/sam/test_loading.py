"""SAM checkpoints: recognised by their shapes, refused with the reason, never executed."""

import pickle
import warnings

import pytest
import torch
from safetensors.torch import save_file
from segment_anything import sam_model_registry

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.regions.sam.sam1 import load_sam
from napari_maskinversion.regions.sam.sam_loading import load_segmenter

from .tiny import SIDE, save_tiny, tiny_sam


def refused(path, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelError, match=words) as error:
            load_segmenter(path, "cpu")
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def hollow(name):
    """A published model's tensors: names and shapes, one number of memory each."""
    with torch.device("meta"):
        sam = sam_model_registry[name]()
    return {key: torch.zeros(()).expand(value.shape) for key, value in sam.state_dict().items()}


@pytest.mark.parametrize(
    "name",
    ["vit_b", "vit_l", pytest.param("vit_h", marks=pytest.mark.full)],  # of 2.6 GB
)
def test_the_published_models_are_recognised_and_load(tmp_path, name):
    path = tmp_path / "any name.pth"
    torch.save(hollow(name), path)
    assert path.stat().st_size < 1_000_000
    sam = load_sam(path, torch.device("cpu"))
    with torch.device("meta"):
        theirs = sam_model_registry[name]()
    assert str(sam) == str(theirs)  # the same modules with the same settings
    assert [block.window_size for block in sam.image_encoder.blocks] == [
        block.window_size for block in theirs.image_encoder.blocks
    ]
    assert [block.attn.num_heads for block in sam.image_encoder.blocks] == [
        block.attn.num_heads for block in theirs.image_encoder.blocks
    ]
    assert not any(tensor.is_meta for tensor in (*sam.parameters(), *sam.buffers()))
    assert not sam.training


def test_a_sam_of_other_sizes_is_built_from_its_shapes(checkpoint):
    sam = load_sam(checkpoint, torch.device("cpu"))
    theirs = tiny_sam().state_dict()
    assert sam.state_dict().keys() == theirs.keys()
    assert all(torch.equal(value, theirs[key]) for key, value in sam.state_dict().items())


def test_safetensors_load_too(tmp_path):
    path = tmp_path / "sam.safetensors"
    save_file(tiny_sam().state_dict(), path)
    assert load_segmenter(path, "cpu").side == SIDE


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_checkpoint_that_would_run_code_is_refused_and_does_not_run(tmp_path):
    mark = tmp_path / "it ran"
    torch.save({**tiny_sam().state_dict(), "x": Evil(mark)}, tmp_path / "evil.pth")
    (tmp_path / "old.pth").write_bytes(pickle.dumps(Evil(mark)))
    for name in ("evil.pth", "old.pth"):
        refused(tmp_path / name, "could run code")
    assert not mark.exists()


def test_a_truncated_checkpoint_is_refused(tmp_path):
    path = save_tiny(tmp_path / "sam.pth")
    path.write_bytes(path.read_bytes()[:-3000])
    refused(path, "damaged")


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("image_encoder.neck.0.weight", (16, 20, 1, 1), "neck.0.weight is 16x20x1x1 and should be"),
        ("image_encoder.pos_embed", (1, 8, 7, 24), "pos_embed is 1x8x7x24 and should be 1x8x8x24"),
        ("image_encoder.blocks.1.attn.rel_pos_h", (5, 7), "rel_pos_h is 5x7 and should be 5x8"),
        ("image_encoder.blocks.0.attn.rel_pos_h", (5, 7), "rel_pos_h is 5x7 and should be 5x8"),
        ("mask_decoder.iou_token.weight", (1, 15), "iou_token.weight is 1x15 and should be 1x16"),
    ],
)
def test_tensors_of_the_wrong_size_are_named(tmp_path, name, size, words):
    state = tiny_sam().state_dict()
    torch.save({**state, name: torch.zeros(size)}, tmp_path / "sam.pth")
    refused(tmp_path / "sam.pth", words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.to(torch.int64), "neck.0.weight is 16x24x1x1 of whole numbers"),
        (lambda one: one.to(torch.complex64), "neck.0.weight is not a table of plain numbers"),
        (lambda one: one.to_sparse(), "neck.0.weight is not a table of plain numbers"),
    ],
)
def test_tensors_of_another_kind_are_named(tmp_path, change, words):
    state = tiny_sam().state_dict()
    name = "image_encoder.neck.0.weight"
    torch.save({**state, name: change(state[name])}, tmp_path / "sam.pth")
    refused(tmp_path / "sam.pth", words)


def test_another_model_and_relatives_of_sam_are_refused(tmp_path):
    torch.save({"visual.proj": torch.zeros(3, 4)}, tmp_path / "clip.pth")
    refused(tmp_path / "clip.pth", "not a checkpoint of SAM ViT-B, ViT-L or ViT-H")
    state = tiny_sam().state_dict()
    state["mask_decoder.hf_token.weight"] = torch.zeros(1, 16)
    torch.save(state, tmp_path / "hq.pth")
    refused(tmp_path / "hq.pth", "hf_token")
    refused(tmp_path / "none.pth", "no checkpoint file")
