"""``imagine``, as a user meets it."""

import hashlib
import json

import pytest
import skimage.io

from napari_maskinversion.cli import console
from napari_maskinversion.cli import imagine as cli_imagine
from tests import tiny_decoders
from tests.scenes import demo_model, write_scene

from .conftest import ok, refusal


@pytest.fixture(scope="module")
def decoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoders")
    tiny_decoders.kandinsky(folder / "kandinsky")
    tiny_decoders.prior(folder / "prior")
    return folder


@pytest.fixture
def imagine(call, monkeypatch, tmp_path, decoders):
    monkeypatch.setattr(cli_imagine, "load", lambda *_: demo_model())
    write_scene(tmp_path)
    small = ("--draw-steps", 2, "--size", 64)

    def command(*options, weights=decoders / "kandinsky"):
        files = (tmp_path / "image.png", tmp_path / "masks.png")
        out = ("--out", tmp_path / "out") if "--out" not in options else ()
        return call("imagine", *files, *options, *small, *out, "--weights", weights)

    return command


def test_the_picture_of_a_region_is_written_beside_that_of_cls(imagine, tmp_path):
    numbers = ("--seed", 7, "--pictures", 2, "--guidance", 3, "--norm", "cls")
    err = ok(imagine("--region", 3, *numbers))
    assert "needed" in err  # device and memory, said beforehand
    assert "Wrote region-3_seed-7.png, region-3_seed-8.png, cls_seed-7.png, cls_seed-8.png" in err
    assert skimage.io.imread(tmp_path / "out" / "region-3_seed-7.png").shape == (64, 64, 3)
    record = json.loads((tmp_path / "out" / "imagine.json").read_text())
    assert record["settings"] == {
        **{"seed": 7, "pictures": 2, "guidance": 3, "norm": "cls", "steps": 2, "size": 64},
        **{"device": "cpu", "dtype": "float32"},
    }
    assert record["model"]["name"] == "demo"  # what the decoder was trained on
    assert record["source"]["image"]["file"] == "image.png"
    assert record["inversion"]["window"]["mode"] == "whole"


def test_several_regions_in_a_prompt(imagine, decoders, tmp_path):
    ok(
        imagine(
            *("--region", "1,2", "--region", 3, "--subject", "dog", "--subject", "hat"),
            *("--prompt", "a photo of a sks dog with a hat", "--prior", decoders / "prior"),
        )
    )
    assert (tmp_path / "out" / "region-1+2+3_seed-0.png").exists()
    record = json.loads((tmp_path / "out" / "imagine.json").read_text())
    unet = decoders / "kandinsky" / "unet" / "diffusion_pytorch_model.safetensors"
    own = decoders / "prior" / "diffusion_pytorch_model.safetensors"
    told = record["decoder"]["sha256"]["unet/diffusion_pytorch_model.safetensors"]
    assert told == hashlib.sha256(unet.read_bytes()).hexdigest()
    assert record["prior"]["sha256"] == hashlib.sha256(own.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--region", "three"), "such as 3 or 3,5; got 'three'"),
        (("--region", 9), "no region 9"),
        (("--region", 1, "--model", "ViT-B-16/openai"), "not of ViT-B-16/openai; use that model"),
        (("--region", 1, "--seed", -1), "seed must be"),
        (("--region", 1, "--decoder", "dalle"), "kandinsky22, unclip-h, unclip-l"),
        (("--region", 1, "--plane", "z=3"), "z"),
    ],
)
def test_bad_input_is_one_line(imagine, tmp_path, options, says):
    err = refusal(imagine(*options))
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_missing_weights_are_named_before_the_model_is_loaded(imagine, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_imagine, "load", None)
    err = refusal(imagine("--region", 1, weights=tmp_path / "none"))
    assert "5.3 GB" in err
    assert "hf download kandinsky-community/kandinsky-2-2-decoder" in err


def test_a_region_that_is_not_there_is_refused_before_the_decoder_is_looked_for(imagine, tmp_path):
    assert "no region 9" in refusal(imagine("--region", 9, weights=tmp_path / "none"))


def test_unclip_is_fetched_from_a_copy_that_is_marked_as_unofficial(imagine, tmp_path):
    err = refusal(imagine("--region", 1, "--decoder", "unclip-l", weights=tmp_path / "none"))
    assert "hf download sd2-community/stable-diffusion-2-1-unclip-small" in err
    assert "an unofficial copy of stabilityai/stable-diffusion-2-1-unclip-small" in err


def test_a_picture_that_is_there_stays(imagine, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "cls_seed-0.png").write_text("mine")
    monkeypatch.setattr(cli_imagine, "load", None)
    assert "already has cls_seed-0.png; choose another folder.\n" in refusal(imagine("--region", 1))
    assert (out / "cls_seed-0.png").read_text() == "mine"
    assert [file.name for file in out.iterdir()] == ["cls_seed-0.png"]


def test_ctrl_c_stops_between_two_steps_and_writes_nothing(imagine, tmp_path, monkeypatch):
    def interrupt(self, text, *_):
        if "step" in text and "Picture 1" in text:
            raise KeyboardInterrupt

    monkeypatch.setattr(console.ProgressBar, "show", interrupt)
    code, _, err = imagine("--region", 1)
    assert code == 130
    assert "Stopped; nothing was written." in err
    assert not (tmp_path / "out").exists()
