"""Checkpoint files of the user's own: read safely, matched strictly, refused with the reason."""

import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.engine.models.loading import load_model
from napari_maskinversion.engine.models.registry import recorded_name
from tests.engine.tiny import cut_architecture, random_clip

TEXTS = ["a photo of a dog"]


@pytest.fixture
def tiny(monkeypatch):
    """A small ViT-B-32 as open_clip builds it."""
    for name in ("ViT-B-32", "ViT-B-32-quickgelu"):
        config = cut_architecture(monkeypatch, name)
    return random_clip(config)


def vectors(clip):
    from open_clip.tokenizer import SimpleTokenizer

    with torch.no_grad():
        return clip.encode_text(SimpleTokenizer()(TEXTS), normalize=True).numpy()


def test_a_safetensors_file_loads_by_path(tiny, tmp_path):
    path = tmp_path / "mine.safetensors"
    save_file(tiny.state_dict(), path)
    model = load_model(path, architecture="ViT-B-32", device="cpu")
    np.testing.assert_allclose(model.encode_text(TEXTS), vectors(tiny), atol=1e-6)
    assert model.name == recorded_name(str(path)) == "mine"


@pytest.mark.parametrize(
    "pack",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"state_dict": {f"module.{k}": v for k, v in state.items()}},
        lambda state: {f"_orig_mod.{k}": v.half() for k, v in state.items()},
    ],
    ids=["plain", "training checkpoint", "data parallel", "compiled, half precision"],
)
def test_a_torch_file_loads_by_path_however_it_was_packed(tiny, tmp_path, pack):
    path = tmp_path / "mine.pt"
    torch.save(pack(tiny.state_dict()), path)
    model = load_model(str(path), architecture="ViT-B-32", device="cpu")
    assert {p.dtype for p in model.clip.parameters()} == {torch.float32}
    np.testing.assert_allclose(model.encode_text(TEXTS), vectors(tiny), atol=1e-2)


def test_the_activation_is_the_one_asked_for(tiny, tmp_path):
    path = tmp_path / "mine.safetensors"
    save_file(tiny.state_dict(), path)
    kinds = []
    for architecture in ("ViT-B-32", "ViT-B-32-quickgelu", "ViT-B-32/openai"):
        clip = load_model(path, architecture=architecture, device="cpu").clip
        kinds.append(type(clip.visual.transformer.resblocks[0].mlp.gelu).__name__)
    assert kinds == ["GELU", "QuickGELU", "QuickGELU"]


def test_openais_own_state_dict_brings_its_activation_along(tiny, tmp_path):
    path = tmp_path / "openai.pt"
    extras = {
        name: torch.tensor(1) for name in ("input_resolution", "context_length", "vocab_size")
    }
    torch.save({**tiny.state_dict(), **extras}, path)
    clip = load_model(path, architecture="ViT-B-32", device="cpu").clip
    assert type(clip.visual.transformer.resblocks[0].mlp.gelu).__name__ == "QuickGELU"


def test_a_folder_with_a_configuration_needs_no_architecture(tiny, tmp_path):
    folder = tmp_path / "mine.v2"
    folder.mkdir()
    config = {"embed_dim": 24, "vision_cfg": {}, "text_cfg": {}}
    from open_clip import factory

    config = factory.get_model_config("ViT-B-32")
    images = {"mean": [0.5] * 3, "std": [0.5] * 3}
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": config, "preprocess_cfg": images})
    )
    save_file(tiny.state_dict(), folder / "open_clip_model.safetensors")
    model = load_model(folder, device="cpu")
    assert model.mean == (0.5, 0.5, 0.5)
    assert model.name == recorded_name(str(folder)) == "mine.v2"
    np.testing.assert_allclose(model.encode_text(TEXTS), vectors(tiny), atol=1e-6)


# Refusals: each one line that says what to do


def refused(path, words, architecture="ViT-B-32"):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelError, match=words) as error:
            load_model(path, architecture=architecture, device="cpu")
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none.safetensors", "There is no folder or file .*none.safetensors")
    refused(str(tmp_path / "none.pt"), "There is no folder or file .*none.pt")
    refused("none.pt", "There is no folder or file .*none.pt")


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        (None, "--architecture ViT-B-16"),
        ("ViT-B32", r"no architecture called 'ViT-B32'.*ViT-B-32"),
        ("RN50", "ResNet"),
    ],
)
def test_a_missing_or_unknown_architecture(tiny, tmp_path, architecture, says):
    save_file(tiny.state_dict(), tmp_path / "mine.safetensors")
    refused(tmp_path / "mine.safetensors", says, architecture=architecture)


def test_architecture_and_tag_are_a_name():
    with pytest.raises(ModelError) as expected:
        load_model("ViT-B-16/nothing")
    with pytest.raises(ModelError, match="ViT-B-16/nothing") as error:
        load_model("ViT-B-16", "nothing")
    assert str(error.value) == str(expected.value)


def test_an_architecture_given_for_a_named_model():
    refused("demo", "has its own", architecture="ViT-B-32")


@pytest.mark.parametrize(
    ("name", "save"), [("mine.safetensors", save_file), ("mine.pt", torch.save)]
)
def test_a_truncated_or_foreign_file(tiny, tmp_path, name, save):
    path = tmp_path / name
    save(tiny.state_dict(), path)
    for content in (path.read_bytes()[:-2000], b"", b"GIF89a, not a checkpoint"):
        path.write_bytes(content)
        refused(path, "damaged")


def test_missing_left_over_and_misshapen_tensors_are_named(tiny, tmp_path):
    state = tiny.state_dict()
    state["extra"] = torch.zeros(3)
    state["visual.proj"] = torch.zeros(5, 6)
    del state["ln_final.bias"]
    save_file(state, tmp_path / "mine.safetensors")
    refused(
        tmp_path / "mine.safetensors",
        r"1 tensor is missing \(ln_final.bias\); 1 tensor is not part of the architecture "
        r"\(extra\); 1 tensor is of another shape \(visual.proj is 5x6 and should be 32x24\)",
    )


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_file_that_would_run_code_is_refused_and_does_not_run(tiny, tmp_path):
    mark = tmp_path / "it ran"
    torch.save({"state_dict": tiny.state_dict(), "x": Evil(mark)}, tmp_path / "evil.pt")
    torch.save(tiny, tmp_path / "module.pt")
    (tmp_path / "evil.bin").write_bytes(pickle.dumps(Evil(mark)))
    for name in ("evil.pt", "evil.bin", "module.pt"):
        refused(tmp_path / name, "could run code.*state_dict")
    assert not mark.exists()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_a_torchscript_archive_is_refused_with_a_way_out(tmp_path):
    torch.jit.script(nn.Linear(2, 2)).save(str(tmp_path / "clip.pt"))
    refused(tmp_path / "clip.pt", r"TorchScript.*ViT-B-16/openai")


def test_a_compressed_archive_is_refused_before_it_is_unpacked(tmp_path):
    """torch.save compresses nothing; zeros would unpack to a thousand times their size."""
    torch.save({"a": torch.zeros(1000, 1000)}, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as plain,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    refused(tmp_path / "b.pt", "is a compressed zip file")


def test_few_numbers_that_claim_to_be_many_are_refused(tmp_path):
    torch.save({"a": torch.zeros(1).expand(100_000, 10_000)}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", "a is not a table of plain numbers")


@pytest.mark.parametrize(
    ("proj", "says"),
    [
        (
            torch.zeros(32, 24, dtype=torch.int8),
            "visual.proj is 32x24 of whole numbers and should be 32x24",
        ),
        (torch.zeros(32, 24).to_sparse(), "visual.proj is not a table of plain numbers"),
    ],
)
def test_numbers_of_another_kind_are_refused_by_name(tiny, tmp_path, proj, says):
    torch.save({**tiny.state_dict(), "visual.proj": proj}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", says)


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, torch.zeros(3)])
def test_a_file_without_named_tensors_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "odd.pt")
    refused(tmp_path / "odd.pt", "tensors")


@pytest.mark.parametrize("config", ["", "{}", "[]", '{"model_cfg": {}, "preprocess_cfg": {}}'])
def test_a_folder_that_is_no_model(tmp_path, config):
    (tmp_path / "open_clip_config.json").write_text(config)
    refused(tmp_path, "not a model folder", architecture=None)
    refused(tmp_path.parent / "nothing here", "no folder or file", architecture=None)
