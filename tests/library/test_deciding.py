"""Decisions about regions of a library are those of their images, and can be taken back."""

import pytest

from napari_maskinversion.app.review.decision_book import DecisionBook
from napari_maskinversion.app.review.decision_requests import DecisionRequest
from napari_maskinversion.base.errors import InUseError
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.library_decisions import LibraryRegions
from napari_maskinversion.library.store import Store
from napari_maskinversion.review.decisions import Decision
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review

from .made import bundle, write_image


@pytest.fixture
def library(tmp_path):
    """Four regions of each of two images, whose files are there."""
    library = Library.new(tmp_path / "library")
    for seed in (0, 1):
        library.add(bundle(4, seed), image=write_image(tmp_path, seed))
    return library


def decide(library, ids, **verdict):
    rows = library.rows(ids=ids)
    regions = {}
    for name, region in zip(rows["image"], rows["region"], strict=True):
        regions.setdefault(name, []).append(RegionKey(region))
    images = {name: ImagePlace(name) for name in regions}
    request = DecisionRequest(
        regions=regions, images=images, source=LibraryRegions(library, ids), **verdict
    )
    return DecisionBook().apply(request)


def take_back(outcome):
    return DecisionBook().take_back(outcome)


def states(library):
    return [tuple(one) for one in library.rows()[["decision", "label"]].itertuples(index=False)]


def reviewing(folder, seed=0):
    made = bundle(4, seed)
    return Review(
        image_of(made), identities_of(made), made.results.info, file=folder / f"image-{seed}.png"
    )


def test_a_decision_about_several_images_is_found_by_their_reviews(library, tmp_path):
    before = states(library)
    ids = library.rows()["id"].iloc[[0, 2, 5]].tolist()
    decided = decide(library, ids, status="accepted", label="dust")
    assert decided.count == 3
    assert [at for at, one in enumerate(states(library)) if one == ("accepted", "dust")] == [
        0,
        2,
        5,
    ]
    with reviewing(tmp_path) as own:
        assert own.decisions.accepted() == {RegionKey(1): "dust", RegionKey(3): "dust"}
        assert not own.restored.changed
        assert own.decisions.undoable == 1
    take_back(decided)
    assert states(library) == before
    with reviewing(tmp_path) as own:
        assert not own.decisions


def test_what_was_decided_since_in_a_review_stays(library, tmp_path):
    ids = library.rows()["id"].iloc[:2].tolist()
    decided = decide(library, ids, status="rejected")
    with reviewing(tmp_path) as own:
        own.decide(Decision(region=RegionKey(2), status="accepted", label="own word"))
    take_back(decided)
    with reviewing(tmp_path) as own:
        assert dict(own.decisions.accepted()) == {RegionKey(2): "own word"}
        assert RegionKey(1) not in own.decisions
    assert states(library)[:2] == [("undecided", "red cell"), ("accepted", "own word")]


def test_only_images_that_were_decided_are_taken_back(library, tmp_path):
    ids = library.rows()["id"].iloc[[0, 4]].tolist()
    with reviewing(tmp_path, 1):
        decided = decide(library, ids, status="rejected")
        taken = take_back(decided)
    (name,) = taken.steps
    assert name.endswith("image-0.png")
    assert not taken.problems


def test_decisions_that_the_library_cannot_take_are_saved_and_can_be_taken_back(
    library, tmp_path, monkeypatch
):
    before, ids = states(library), library.rows()["id"].iloc[:2].tolist()

    def busy(*_):
        raise InUseError("it is in use")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "update", busy)
        decided = decide(library, ids, status="rejected")
    (problem,) = decided.problems.values()
    assert problem == "saved with the image; the library could not take it: it is in use"
    assert (decided.count, states(library)) == (2, before)
    take_back(decided)
    with reviewing(tmp_path) as own:
        assert not own.decisions


def test_accepting_takes_what_is_suggested_for_each(library):
    decide(library, library.rows()["id"].iloc[:2].tolist(), status="accepted")
    assert states(library)[:2] == [("accepted", "red cell"), ("accepted", "white cell")]


def test_an_image_that_is_another_one_by_now_is_not_decided_about(library, tmp_path):
    write_image(tmp_path, 7).replace(tmp_path / "image-0.png")
    decided = decide(library, library.rows()["id"].iloc[[0, 4]].tolist(), status="rejected")
    assert "has changed" in next(iter(decided.problems.values()))
    assert [one[0] for one in states(library)] == [
        *["undecided"] * 4,
        "rejected",
        *["undecided"] * 3,
    ]


def test_an_image_that_is_gone_or_open_elsewhere_is_left_out_with_its_reason(library, tmp_path):
    ids = library.rows()["id"].iloc[[0, 4]].tolist()
    with reviewing(tmp_path, 1):
        (problem,) = decide(library, ids, status="skipped").problems.values()
        assert "under review, here or in another window" in problem
    (tmp_path / "image-0.png").unlink()
    decided = decide(library, ids, status="accepted", label="dust")
    assert "image-0.png" in next(iter(decided.problems))
    assert [one[0] for one in states(library)] == [
        *("skipped", "undecided", "undecided", "undecided"),
        *("accepted", "undecided", "undecided", "undecided"),
    ]
