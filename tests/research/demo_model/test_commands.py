"""One command from drawings to a model with its card, and one to its caption decoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.drawn.sprites import SETS
from napari_maskinversion import load_model
from napari_maskinversion.demo_model.scene_words import DRAWN
from napari_maskinversion.language.generation.small_gpt import read_record
from research.demo_model.card import CARD
from research.demo_model.pictograms import EVERY_SET
from tests.emoji_sets import write_sets
from tests.scenes import demo_model

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def rebuild(call: Callable[..., tuple[int, str, str]]) -> Command:
    """Call the command; return its exit code and standard error."""
    return lambda *arguments: call("rebuild-demo", *arguments)[::2]


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Emoji sets as npm leaves them, each with plain drawings of the first names."""
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)
    return write_sets(tmp_path / "node_modules", DRAWN[:6])


def test_one_command_leaves_a_model_its_scores_and_its_card(
    rebuild: Command, sets: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    quick = ("--budget", 0.05, "--objects", 6, "--scenes", 1)
    code, said = rebuild(out, "--sprites", sets, *quick)
    assert code == 0, said
    assert "learns drawings only" in said
    model = load_model(str(out), device="cpu")
    assert model.encode_text(["a photo of a penguin"]).shape == (1, 128)
    names = (out / "vocabulary.txt").read_text("utf-8").splitlines()
    assert names == [name.name for name in DRAWN[:6]]
    measured = json.loads((out / "scenes.json").read_text("utf-8"))
    card = (out / CARD).read_text("utf-8")
    assert "$" not in card
    assert "6 names of drawn things and 0 names" in card
    assert "rebuild-demo model --sprites node_modules --budget 0.05" in card
    assert str(tmp_path) not in card
    for s in EVERY_SET:
        assert f"{s.package} {s.version} | {s.author} | {s.licence}" in card
    # the scores in the card are those of the record
    overlap = measured["parts"]["regions/seen/3"]["iou"]["value"]
    assert f"{overlap:.2f}" in card
    assert "Not measured yet" not in card


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--budget", 0), "--budget must be more than 0 minutes; got 0"),
        (("--objects", 100_000), "got 100000"),
        (("--scenes", 0), "Invalid value for '--scenes'"),
        (("--warm", "no/such/model"), "There is no folder no/such/model"),
        (("--photographs", "no/such/folder"), "There is no folder no/such/folder"),
    ],
)
def test_what_cannot_work_is_refused_before_the_work(
    rebuild: Command, sets: Path, tmp_path: Path, arguments: tuple[Any, ...], told: str
) -> None:
    code, said = rebuild(tmp_path / "model", "--sprites", sets, *arguments)
    assert code == 2
    assert told in said
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("known", ["penguin\nkey\n", None])
def test_a_warm_start_needs_a_model_with_the_same_names(
    rebuild: Command, sets: Path, tmp_path: Path, known: str | None
) -> None:
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    if known is not None:
        (earlier / "vocabulary.txt").write_text(known, "utf-8")
    few = ("--sprites", sets, "--objects", 2)
    code, said = rebuild(tmp_path / "model", *few, "--warm", earlier)
    assert code == 2
    assert "does not know the same 2 names" in said
    assert not (tmp_path / "model").exists()


def test_sets_that_are_missing_are_named(rebuild: Command, sets: Path, tmp_path: Path) -> None:
    (sets / SETS[0].package / "icons.json").unlink()
    code, said = rebuild(tmp_path / "model", "--sprites", sets, "--budget", 1)
    assert code == 2
    assert SETS[0].package in said


def test_another_command_writes_weights_card_and_figures(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    figures, short = tmp_path / "figures.json", ("--short", "--scenes", 2)
    code, _, err = call(
        *("rebuild-demo-captions", tmp_path / "out", "--steps", 20, "--json", figures, *short)
    )
    assert code == 0, err
    record = read_record(tmp_path / "out" / "decap.safetensors")
    assert record.fingerprint == demo_model().fingerprint
    card = (tmp_path / "out" / "CARD.md").read_text()
    assert "$" not in card
    assert "sentence names the right thing" in card
    page = json.loads(figures.read_text())
    assert page["kind"] == "captions"
    assert page["settings"]["fingerprint"] == record.fingerprint
    assert set(page["parts"]) == {"texts", "regions/bundled"}
    measured = page["parts"]["regions/bundled"]
    for name in ("class", "named", "alone", "as_class"):
        assert 0 <= measured[name]["low"] <= measured[name]["value"] <= measured[name]["high"] <= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures.json", "out"]
