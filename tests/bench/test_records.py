"""Figures and records that are kept: what is refused, what is repaired, and what goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.measures.figures_file import (
    FiguresFile,
    RecordStore,
    read_figures,
)

SETTINGS = {"model": "demo", "scenes": 2}
FIELDS = ("model", "entry", "image")
HEADER = {"format": 1, "kind": "methods", "settings": {"steps": 10}}


def measured(file: Path, calls: list[str], *, overwrite: bool = False) -> FiguresFile:
    figures = FiguresFile(file, "scenes", SETTINGS, overwrite=overwrite)
    for name in ("seen", "unseen"):
        figures.part(name, lambda name=name: calls.append(name) or {"top1": 0.5})
    return figures


def test_finished_parts_are_not_measured_again(tmp_path: Path) -> None:
    file, calls = tmp_path / "new" / "mine.json", list[str]()
    first = measured(file, calls)
    assert json.loads(file.read_text("utf-8")) == first.page == read_figures(file)
    assert measured(file, calls).parts == first.parts
    assert calls == ["seen", "unseen"]
    measured(file, calls, overwrite=True)
    assert calls == ["seen", "unseen"] * 2


def test_figures_of_something_else_are_refused_and_stay(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    page = measured(file, []).page
    for kind, settings, text, says in (
        ("scenes", SETTINGS | {"scenes": 3}, None, "another scenes"),
        ("steps", SETTINGS, None, "'bench scenes'"),
        ("scenes", SETTINGS, json.dumps(page | {"format": 2}), "format 2, which this version"),
        ("scenes", SETTINGS, "[1, 2]", "holds no whole figures"),
    ):
        if text is not None:
            file.write_text(text)
        before = file.read_bytes()
        with pytest.raises(InputError, match=says):
            FiguresFile(file, kind, settings)
        assert file.read_bytes() == before


def a_line(image: str) -> str:
    return json.dumps({"model": "m", "entry": "e", "image": image, "ranks": [0]})


def a_file(tmp_path: Path, *lines: str, header: dict[str, Any] = HEADER) -> Path:
    file = tmp_path / "mine.records.jsonl"
    file.write_text("\n".join([json.dumps(header), *lines, ""]), "utf-8")
    return file


def opened(file: Path, *, overwrite: bool = False) -> RecordStore:
    return RecordStore(file, "methods", FIELDS, {"steps": 10}, overwrite=overwrite)


def images(file: Path) -> list[str]:
    return [image for _, _, image in opened(file).records]


def test_a_record_is_on_disk_at_once_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "mine.records.jsonl"
    store = opened(file)
    store.add(("m", "e", "a"), {"ranks": [0, 1]})
    assert opened(file).records == store.records == {("m", "e", "a"): {"ranks": [0, 1]}}
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert lines == [HEADER, {"model": "m", "entry": "e", "image": "a", "ranks": [0, 1]}]
    assert opened(file, overwrite=True).records == {}


@pytest.mark.parametrize("bad", ["garbage", '{"model": "m"}', ""])
def test_a_damaged_line_before_others_is_named_and_nothing_is_lost(
    tmp_path: Path, bad: str
) -> None:
    file = a_file(tmp_path, a_line("a"), bad, a_line("b"), a_line("c"))
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"mine\.records\.jsonl, line 3, .*--overwrite"):
        opened(file)
    assert file.read_bytes() == before
    file.write_bytes(before.replace(f"\n{bad}\n".encode(), b"\n"))  # as the message advises
    assert images(file) == ["a", "b", "c"]
    assert opened(a_file(tmp_path, bad, a_line("a")), overwrite=True).records == {}


@pytest.mark.parametrize("torn", ["garbage\n", a_line("b")[:9], a_line("b")])
def test_a_torn_last_line_is_dropped(tmp_path: Path, torn: str) -> None:
    file = a_file(tmp_path, a_line("a"))
    whole = file.read_bytes()
    file.write_bytes(whole + torn.encode())
    store = opened(file)
    assert [image for _, _, image in store.records] == ["a"]
    assert file.read_bytes() == whole
    store.add(("m", "e", "b"), {"ranks": [0]})
    assert images(file) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(HEADER | {"kind": "maps"}), "holds figures of 'bench maps'"),
        (json.dumps(HEADER | {"settings": {"steps": 9}}), "for another steps"),
        (json.dumps(HEADER | {"format": 2}), "format 2, which this version cannot continue"),
        (json.dumps(HEADER | {"settings": 3}), "holds no records"),
        ("my diary\nof two lines", "holds no records"),
        ("my diary", "holds no records"),
    ],
)
def test_records_of_something_else_are_refused_and_stay(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "mine.records.jsonl"
    file.write_text(text + "\n" * (text != "my diary"))
    before = file.read_bytes()
    with pytest.raises(InputError, match=message) as refusal:
        opened(file)
    assert "\n" not in str(refusal.value)
    assert file.read_bytes() == before
