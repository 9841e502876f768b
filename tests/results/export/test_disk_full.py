"""A disk that fills: an error that names the file, and everything as it was."""

from pathlib import Path

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.results.export.catalogue import FORMATS, write_results
from tests.disk import full_after

STORES = [name for name, entry in FORMATS.items() if entry.suffix == ".zarr"]
PLAIN = [name for name in FORMATS if name not in STORES]
FILES = [
    (name, number)
    for name in PLAIN
    for number in range(len(FORMATS[name].files(Path(FORMATS[name].file))))
]


@pytest.fixture(scope="module")
def sizes(bundle, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return {path.name: path.stat().st_size for path in write_results(bundle, out, tuple(PLAIN))}


@pytest.mark.parametrize(("name", "number"), FILES)
@pytest.mark.parametrize("there", [True, False], ids=["replacing", "new"])
def test_a_disk_that_fills_in_the_middle_of_a_file_leaves_all_as_it_was(
    bundle, sizes, tmp_path, name, number, there
):
    entry = FORMATS[name]
    files = entry.files(tmp_path / entry.file)
    for file in files if there else ():
        file.write_text("before")
    broken = files[number]
    with (
        full_after(sizes[broken.name] // 2, file=number + 1),
        pytest.raises(InputError, match=f"{broken.name} could not be written [(].*; choose"),
    ):
        entry.write(bundle, files[0])
    assert sorted(tmp_path.iterdir()) == (sorted(files) if there else [])
    assert all(file.read_text() == "before" for file in tmp_path.iterdir())


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("there", [True, False], ids=["replacing", "new"])
def test_a_disk_that_fills_in_the_middle_of_a_store_leaves_all_as_it_was(
    bundle, tmp_path, name, there
):
    entry = FORMATS[name]
    path = tmp_path / entry.file
    if there:
        entry.write(bundle, path)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    with full_after(100, file=0), pytest.raises(InputError, match=f"{entry.file} could not be"):
        entry.write(bundle, path)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_that_cannot_be_replaced_leaves_the_others_as_they_were(
    bundle, tmp_path, monkeypatch, links
):
    files = FORMATS["masks"].files(tmp_path / "labels.tif")
    there = files[1:-1] if links else files[:-1]
    for file in there:
        file.write_text("before")
    files[-1].mkdir()
    if not links:
        monkeypatch.setattr("os.link", lambda *_: exec("raise OSError(1, 'not here')"))
    with pytest.raises(InputError, match=f"{files[-1].name} could not be written"):
        FORMATS["masks"].write(bundle, files[0])
    assert sorted(tmp_path.iterdir()) == sorted({*there, files[-1]})
    assert all(file.read_text() == "before" for file in there)
