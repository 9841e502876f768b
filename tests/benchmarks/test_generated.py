"""``bench captions``."""

import json

import pytest

SHORT = ("--short", "--scenes", "2")


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
    ],
)
def test_what_cannot_work_is_one_line(call, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
