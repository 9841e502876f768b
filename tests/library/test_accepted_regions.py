"""Accepted regions kept in the cache folder: what comes back, what is told, what is never lost."""

import numpy as np
import pytest

from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.library import accepted_regions
from napari_maskinversion.library.accepted_regions import AcceptedRegions

HERE = ("image a", RegionKey(7, (("z", 3),)))
THERE = ("image b", RegionKey(1))


def row(*values):
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture
def store():
    made = AcceptedRegions("model", 2)
    assert made.write({HERE: (row(1, 0), "Zelle, \u03b1"), THERE: (row(0, 1), "dust")}) == ""
    return made


def test_what_was_kept_comes_back(store):
    stored = AcceptedRegions("model", 2).read()
    assert stored.note == ""
    assert list(stored.regions) == [HERE, THERE]
    np.testing.assert_array_equal(stored.regions[HERE][0], row(1, 0))
    assert stored.regions[HERE][1] == "Zelle, \u03b1"


def test_a_later_word_counts_and_what_is_taken_back_goes(store):
    assert store.write({HERE: (row(0.6, 0.8), "dog"), THERE: None}) == ""
    stored = store.read().regions
    assert list(stored) == [HERE]
    assert stored[HERE][1] == "dog"
    np.testing.assert_allclose(stored[HERE][0], row(0.6, 0.8), atol=1e-3)


def test_models_and_methods_keep_to_themselves(store):
    for other in (AcceptedRegions("other", 2), AcceptedRegions("model/crop", 2)):
        assert other.read().regions == {}
        assert other.write({HERE: (row(1, 1), "x"), THERE: None}) == ""
    assert [label for _, label in store.read().regions.values()] == ["Zelle, \u03b1", "dust"]
    assert AcceptedRegions("model", 3).read().regions == {}  # of another length


def test_nothing_is_written_where_there_is_nothing_to_keep(own_cache_folder):
    assert AcceptedRegions("model", 2).write({HERE: None}) == ""
    assert list(own_cache_folder.iterdir()) == []


def test_of_too_many_the_first_are_forgotten(store, monkeypatch):
    monkeypatch.setattr(accepted_regions, "MOST", 3)
    store.write({("image c", RegionKey(k)): (row(k, 1), "x") for k in range(2)})
    assert HERE not in store.read().regions
    assert len(store.read().regions) == 3
    # One that is accepted anew is the last again.
    store.write({THERE: (row(0, 1), "dust")})
    store.write({("image c", RegionKey(9)): (row(0, 1), "x")})
    assert THERE in store.read().regions


@pytest.mark.parametrize("ask", [AcceptedRegions.read, lambda s: s.write({HERE: (row(1, 1), "x")})])
def test_a_damaged_file_is_told_and_left_alone(store, ask):
    file = store.folder / "rows.db"
    file.write_bytes(file.read_bytes()[:100] + b"\xff" * 9000)
    damaged = file.read_bytes()
    said = ask(store)
    said = said if isinstance(said, str) else said.note
    assert str(store.folder) in said
    assert "delete" in said
    assert file.read_bytes() == damaged


def test_a_write_that_breaks_off_leaves_what_was_there(store):
    said = store.write({HERE: None, THERE: (row(np.nan, 1), "x")})
    assert "could not be read or saved" in said
    assert list(store.read().regions) == [HERE, THERE]


def test_a_folder_that_cannot_be_made_is_told(own_cache_folder):
    (own_cache_folder / "accepted").write_text("a file")
    store = AcceptedRegions("model", 2)
    assert "could not be read or saved" in store.write({HERE: (row(1, 1), "x")})
    assert store.read().regions == {}
