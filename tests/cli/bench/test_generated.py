"""``rebuild-demo-captions`` and ``bench captions``: one command writes weights, card, figures."""

import json

import pytest

from napari_maskinversion.language.generation.small_gpt import read_record
from tests.scenes import demo_model

SHORT = ("--short", "--scenes", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("captions")


def test_one_command_writes_weights_card_and_figures(call, folder):
    figures = folder / "figures.json"
    code, _, err = call(
        *("rebuild-demo-captions", folder / "out", "--steps", 20, "--json", figures, *SHORT)
    )
    assert code == 0, err
    record = read_record(folder / "out" / "decap.safetensors")
    assert record.fingerprint == demo_model().fingerprint
    card = (folder / "out" / "CARD.md").read_text()
    assert "$" not in card
    assert "sentence names the right thing" in card
    page = json.loads(figures.read_text())
    assert page["kind"] == "captions"
    assert page["settings"]["fingerprint"] == record.fingerprint
    assert set(page["parts"]) == {"texts", "regions/bundled"}
    measured = page["parts"]["regions/bundled"]
    for name in ("class", "named", "alone", "as_class"):
        assert 0 <= measured[name]["low"] <= measured[name]["value"] <= measured[name]["high"] <= 1
    assert sorted(path.name for path in folder.iterdir()) == ["figures.json", "out"]


def test_the_bundled_decoder_names_what_the_drawings_show(call, tmp_path):
    code, out, err = call("bench", "captions", *SHORT, "--json", tmp_path / "figures.json")
    assert code == 0, err
    assert "sentence names the right thing" in out
    parts = json.loads((tmp_path / "figures.json").read_text())["parts"]
    assert parts["texts"]["named"]["value"] > 0.95
    assert parts["regions/bundled"]["named"]["value"] >= 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "captions", "--scenes", "0"), "--scenes must be at least 1"),
        (("bench", "captions", "--decoder", "clipcap-coco"), "reads embeddings of ViT-B-32"),
        (("bench", "captions", "--short", "--plots", "plots"), "draws no plots"),
        (("rebuild-demo-captions", "out", "--steps", "1"), "--steps must be at least 20"),
        (("rebuild-demo-captions", "out", "--seed", "-1"), "--seed 0 to"),
        (("rebuild-demo-captions", "out", "--model", "ViT-B-16/nobody"), "ViT-B-16/nobody"),
    ],
)
def test_what_cannot_work_is_one_line(call, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
