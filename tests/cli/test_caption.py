"""The command ``caption``: sentences in the table and in every file."""

import json
import re

import pandas as pd
import pytest

from napari_maskinversion.cli import captions, run_options
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.generation import registry
from napari_maskinversion.results.export.archive import open_archive
from tests.language.generation.checkpoints import write_clipcap
from tests.language.generation.test_registry import CLIPCAP_MODEL, named
from tests.scenes import demo_model

FORMATS = "csv,json,coco,npz"


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """The first sample scene as two files; the demo model is loaded once."""
    from skimage.io import imsave

    monkeypatch.setattr(captions, "load", lambda *_: demo_model())
    shown = load_scene("everyday-1")
    imsave(tmp_path / "image.png", shown.image)
    imsave(tmp_path / "masks.png", shown.regions.astype("uint8"))
    return tmp_path, shown.truth


def test_a_sentence_names_what_a_region_shows_in_every_file(call, scene):
    folder, truth = scene
    code, out, err = call(
        *("caption", folder / "image.png", folder / "masks.png", "--format", FORMATS),
        *("--out", folder / "out"),
    )
    assert code == 0, err
    assert "generated caption" in out
    assert not re.search(r"\bok\b", out)  # no word was judged
    table = pd.read_csv(folder / "out" / "regions.csv").set_index("region")
    sentences = table["generated_caption"].to_dict()
    assert sum(name in sentences[region] for region, name in truth.items()) >= 3  # of four
    assert all(text.endswith(".") and text[0].isupper() for text in sentences.values())
    record = json.loads((folder / "out" / "result.json").read_text())
    assert [r["generated_caption"] for r in record["regions"]] == list(sentences.values())
    assert record["generated_captions"]["decoder"] == "demo"
    assert record["generated_captions"]["settings"]["search"] == "greedy"
    coco = json.loads((folder / "out" / "coco.json").read_text())
    attributes = [item["attributes"]["generated_caption"] for item in coco["annotations"]]
    assert attributes == list(sentences.values())
    reopened = open_archive(folder / "out" / "results.npz").results
    assert [region.generated_caption for region in reopened.regions] == list(sentences.values())
    assert reopened.info.generated.weights == record["generated_captions"]["weights"]


def test_embeddings_of_an_earlier_run_are_used_again(fine, scene, monkeypatch):
    folder, _ = scene
    files = folder / "image.png", folder / "masks.png"
    fine("caption", *files, "--format", "npz", "--out", folder / "kept")
    monkeypatch.setattr(run_options, "invert", None)
    kept = folder / "kept" / "results.npz"
    for more in (("--search", "beam", "--beams", 2), ("--norm", "cls")):
        fine(*("caption", *files, "--results", kept, "--out", folder / "out", "--overwrite", *more))
    record = json.loads((folder / "out" / "result.json").read_text())
    assert record["generated_captions"]["settings"]["norm"] == "cls"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--decoder", "gpt5"], "no caption decoder called 'gpt5'"),
        (["--decoder", "clipcap-coco"], "reads embeddings of ViT-B-32/openai"),
        (["--decoder", "decap"], "needs a file"),
        (["--decoder-file", "missing.safetensors"], "no decoder file at missing.safetensors"),
        (["--memory", "missing.txt"], "takes no caption bank"),
        (["--search", "beam", "--beams", "0"], "beams"),
        (["--search", "best"], "search"),
        (["--norm", "unit"], "norm"),
        (["--norm", "cls", "--method", "crop"], "goes with MaskInversion"),
        (["--max-tokens", "400"], "writes at most 22 tokens"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_work_is_one_line_before_anything_is_computed(
    call, scene, monkeypatch, options, said
):
    folder, _ = scene

    def never(*_):
        raise AssertionError("regions were inverted")

    monkeypatch.setattr(run_options, "invert", never)
    code, out, err = call(
        *("caption", folder / "image.png", folder / "masks.png", "--out", folder / "out", *options)
    )
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not list((folder / "out").glob("*.*"))


def test_a_bundled_decoder_of_other_weights_is_refused_in_one_line(refused, scene, monkeypatch):
    folder, _ = scene
    monkeypatch.setattr(run_options, "invert", None)
    monkeypatch.setattr(type(demo_model()), "fingerprint", "0" * 16)
    files = folder / "image.png", folder / "masks.png"
    err = refused("caption", *files, "--out", folder / "out")
    assert "trained for demo" in err
    assert "rebuild-demo-captions" in err
    assert len(err.strip().splitlines()) == 1


def test_clipcap_captions_regions_from_a_file(fine, scene, monkeypatch):
    folder, _ = scene
    model = named(CLIPCAP_MODEL)
    monkeypatch.setattr(captions, "load", lambda *_: model)
    monkeypatch.setattr(registry, "fetch_vocabulary", None)  # it lies beside the weights
    fine(
        *("caption", folder / "image.png", folder / "masks.png", "--model", CLIPCAP_MODEL),
        *("--decoder", "clipcap-coco", "--decoder-file", write_clipcap(folder), "--max-tokens", 5),
        *("--search", "beam", "--norm", "cls", "--out", folder / "out"),
        *("--temperature", 2, "--beams", 3),
    )
    record = json.loads((folder / "out" / "result.json").read_text())
    assert record["generated_captions"]["settings"] == {
        **{"search": "beam", "temperature": 2, "beams": 3},
        **{"norm": "cls", "max_tokens": 5},
    }
    table = pd.read_csv(folder / "out" / "regions.csv", keep_default_na=False)
    assert len(table["generated_caption"]) == 4
