"""The store of finished records: what it refuses, what it repairs, and what it continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.record_store import RecordStore

FIELDS = ("model", "entry", "image")
HEADER = {"format": 1, "kind": "methods", "settings": {"steps": 10}}


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
    assert [json.loads(line) for line in file.read_text("utf-8").splitlines()] == [
        HEADER,
        {"model": "m", "entry": "e", "image": "a", "ranks": [0, 1]},
    ]
    assert opened(file, overwrite=True).records == {}


def test_without_a_file_records_are_in_memory() -> None:
    store = RecordStore(None, "methods", ("image",), {})
    store.add(("a",), {"ranks": [0]})
    assert store.records == {("a",): {"ranks": [0]}}


@pytest.mark.parametrize("bad", ["garbage", "7", "[]", "null", '{"model": "m"}', "", '"\u2028"'])
def test_a_damaged_line_before_others_is_named_and_nothing_is_lost(
    tmp_path: Path, bad: str
) -> None:
    file = a_file(tmp_path, a_line("a"), bad, a_line("b"), a_line("c"))
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"mine\.records\.jsonl, line 3, .*--overwrite") as error:
        opened(file)
    assert "\n" not in str(error.value)
    assert file.read_bytes() == before
    file.write_bytes(before.replace(f"\n{bad}\n".encode(), b"\n"))  # as the message advises
    assert images(file) == ["a", "b", "c"]
    assert opened(a_file(tmp_path, bad, a_line("a")), overwrite=True).records == {}


@pytest.mark.parametrize("torn", ["garbage\n", "7\n", a_line("b")[:9], a_line("b")])
def test_a_torn_last_line_is_dropped(tmp_path: Path, torn: str) -> None:
    file = a_file(tmp_path, a_line("a"))
    whole = file.read_bytes()
    file.write_bytes(whole + torn.encode())
    store = opened(file)
    assert [image for _, _, image in store.records] == ["a"]
    assert file.read_bytes() == whole
    store.add(("m", "e", "b"), {"ranks": [0]})
    assert images(file) == ["a", "b"]


def test_a_file_of_the_user_without_a_whole_line_is_refused_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "mine.records.jsonl"
    file.write_text("my diary")
    with pytest.raises(InputError, match=r"mine\.records\.jsonl holds no records"):
        opened(file)
    assert file.read_text() == "my diary"
    file.write_text(json.dumps(HEADER)[:30])  # a header that was cut off
    assert opened(file).records == {}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({**HEADER, "kind": "maps"}, "holds figures of 'bench maps'"),
        ({**HEADER, "settings": {"steps": 9}}, "for another steps"),
        ({**HEADER, "format": 2}, "format 2, which this version cannot continue"),
        ({"settings": {}}, "holds no records"),
    ],
)
def test_records_of_something_else_are_refused_and_stay(
    tmp_path: Path, header: dict[str, Any], message: str
) -> None:
    file = a_file(tmp_path, a_line("a"), header=header)
    before = file.read_bytes()
    with pytest.raises(InputError, match=rf"mine\.records\.jsonl {message}|{message}"):
        opened(file)
    assert file.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file cannot be written to .*another folder"):
        opened(tmp_path / "file" / "mine.records.jsonl")


def test_a_first_line_that_is_nested_too_deeply_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.records.jsonl"
    for line in ("[" * 100_000, '{"format": 1, "kind": "methods", "settings": 3}', "null"):
        file.write_text(line + "\n", "utf-8")
        with pytest.raises(InputError, match="holds no records of a measurement") as refusal:
            opened(file)
        assert "\n" not in str(refusal.value)
