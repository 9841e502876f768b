"""Records of a measurement: damaged lines, and regions that a method cannot tell apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.datasets.image_folder import ImageFolder
from napari_maskinversion.bench.measures import entries
from napari_maskinversion.bench.measures.journal import Journal
from napari_maskinversion.bench.measures.measuring import Measuring, MeasuringPlan
from tests.scenes import demo_model

HEAD = {"format": 1, "settings": {}}


def a_line(image: str) -> str:
    return json.dumps({"model": "m", "entry": "e", "image": image, "ranks": [0]})


def a_journal(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "mine.records.jsonl"
    file.write_text("\n".join([json.dumps(HEAD), *lines, ""]), "utf-8")
    return file


@pytest.mark.parametrize("bad", ["garbage", "7", "[]", "null", '{"model": "m"}', "", '"\u2028"'])
def test_a_damaged_line_before_others_is_named_and_nothing_is_lost(
    tmp_path: Path, bad: str
) -> None:
    file = a_journal(tmp_path, a_line("a"), bad, a_line("b"), a_line("c"))
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"mine\.records\.jsonl, line 3, .*--overwrite") as told:
        Journal(file, {})
    assert "\n" not in str(told.value)
    assert file.read_bytes() == before
    file.write_bytes(before.replace(f"\n{bad}\n".encode(), b"\n"))  # as it advises
    assert [image for _, _, image in Journal(file, {}).parts] == ["a", "b", "c"]
    assert Journal(a_journal(tmp_path, bad, a_line("a")), {}, overwrite=True).parts == {}


@pytest.mark.parametrize("torn", ["garbage\n", "7\n", a_line("b")[:9], a_line("b")])
def test_a_torn_last_line_is_measured_again(tmp_path: Path, torn: str) -> None:
    file = a_journal(tmp_path, a_line("a"))
    whole = file.read_bytes()
    file.write_bytes(whole + torn.encode())
    journal = Journal(file, {})
    assert [image for _, _, image in journal.parts] == ["a"]
    assert file.read_bytes() == whole
    journal.add(("m", "e", "b"), {"ranks": [0]})
    assert [image for _, _, image in Journal(file, {}).parts] == ["a", "b"]


def test_regions_that_a_method_cannot_tell_apart_are_not_found_by_words(own: Path) -> None:
    """The whole image's embedding is that of each region: their order must not choose."""
    data = ImageFolder(own / "images", own / "masks", own / "names.txt")
    rows = entries.methods("cls,crop", InversionConfig(steps=1))
    plan = MeasuringPlan(models=("demo",), entries=tuple(rows))
    job = Measuring(data, plan, Journal(None, {}), lambda _: demo_model())
    job.run()
    found = job.journal.parts["demo", "cls", "p0"]["expressions"]
    assert len(found) == 3
    sizes = [data.read("p0").regions[place].area for place in range(3)]
    for place, (right, both, either) in enumerate(found):
        others = [size for other, size in enumerate(sizes) if other != place]
        assert (right, both, either) == (0.0, 0.0, sizes[place] + max(others))
    # One that tells them apart chooses.
    assert any(row[0] for row in job.journal.parts["demo", "crop", "p0"]["expressions"])
