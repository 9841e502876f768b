"""``bench captions``."""

import json

SHORT = ("--short", "--scenes", "2")


def test_the_bundled_decoder_names_what_the_drawings_show(call, tmp_path):
    code, out, err = call("bench", "captions", *SHORT, "--json", tmp_path / "figures.json")
    assert code == 0, err
    assert "sentence names the right thing" in out
    parts = json.loads((tmp_path / "figures.json").read_text())["parts"]
    assert parts["texts"]["named"]["value"] > 0.95
    assert parts["regions/bundled"]["named"]["value"] >= 0.5
