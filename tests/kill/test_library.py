"""A library that is killed while it is changed."""

import pytest

from napari_maskinversion.library.library import Library
from tests.library.made import bundle, vectors

# How long work without end goes on, and how much it does.
ENDLESS = {"operations": 80, "seconds": 0.4}
STEPS = {
    "add": ("add",),
    "remove": ("remove", "add"),
    "compact": ("remove", "compact", "add", "compact"),
}


def after(steps):
    """Return the numbers of the images that are there after some steps."""
    there = set(range(10))
    for step in steps:
        name, number = step.split()
        if name == "add":
            there.add(int(number))
        elif name == "remove":
            there.discard(int(number))
    return there


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A library of ten images."""
    library = Library.new(tmp_path_factory.mktemp("made") / "library")
    for seed in range(10):
        library.add(bundle(6, seed=seed))
    return library.folder


@pytest.mark.parametrize("work", STEPS)
def test_no_region_is_lost(killed, made, tmp_path, number, work):
    folder, told = tmp_path / "library", tmp_path / "told"
    folder.mkdir()
    for file in made.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    steps = STEPS[work]
    killed("library", folder, told, *steps, folder=folder, number=number, whole=ENDLESS)
    done = told.read_text().splitlines() if told.exists() else []
    turn, place = divmod(len(done), len(steps))
    library = Library.open(folder)
    rows = library.rows()
    there = {int(name.split("-")[1].split(".")[0]) for name in rows["image"]}
    assert there in (after(done), after([*done, f"{steps[place]} {turn % 20}"]))
    assert len(rows) == 6 * len(there)
    for seed in there:
        own = rows[rows["image"] == f"image-{seed}.png"]
        for row, vector in zip(own.itertuples(), vectors(6, seed), strict=True):
            best = library.search(like=[vector], top=1).iloc[0]
            assert (best["id"], round(best["similarity"], 2)) == (row.id, 1)
    assert [line for line in library.verify() if "not known where" not in line] == []
    library.add(bundle(6, seed=30))  # the next one cleans up
    library.compact()
    assert len(list(folder.glob("vectors-*"))) == 1
