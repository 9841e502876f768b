"""Finding regions by words, without a window; `test_find_widget.py` has it in the panel."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from napari_maskinversion._napari.explore import find_section
from napari_maskinversion._napari.explore.find_section import FindSection
from napari_maskinversion.app.explore.region_sources import IMAGE, LIBRARY, PROJECT, no_regions
from napari_maskinversion.app.explore.searches import FoundRegions
from napari_maskinversion.app.session import ProjectState
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.ranking.ranking import find
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.results import Results
from tests.scenes import demo_model, picture

from .test_find_widget import press


@pytest.fixture
def part(section):
    return section(FindSection)


def press_find(qtbot, part, finished):
    """Press Find; return the order that table and gallery have then."""
    press(qtbot, part.find)
    finished(part, 120)
    return part._session.explore.order


def ids_in_order(order):
    return [hit.place.key.id for hit in order.hits]


def test_a_search_compares_the_embeddings_that_the_table_has(
    qtbot, shared, part, finished, counted, show, results
):
    show()
    part.words.setText("a house, not a green frog")
    order = press_find(qtbot, part, finished)
    assert counted["runs"] == []
    assert order.compared is shared.session.run.record
    matches = find(demo_model(), results.embeddings, "a house, not a green frog")
    assert ids_in_order(order) == [results.ids[match.row] for match in matches]
    np.testing.assert_allclose(
        [hit.similarity for hit in order.hits],
        [match.similarity for match in matches],
        rtol=0,
        atol=1e-6,
    )
    assert shared.session.review.row == matches[0].row
    assert part.about.text() == (
        "'a house, not a green frog': 4 regions, most like first, with the embeddings that there "
        "are."
    )


def test_regions_without_results_are_computed_once_and_shown(
    qtbot, shared, part, finished, counted
):
    part.words.setText("a green frog")
    order = press_find(qtbot, part, finished)
    assert shared.session.run.results.ids == shared.session.run.record.results.ids
    assert order.compared is shared.session.run.record
    assert "embedded for this search" in part.about.text()
    press_find(qtbot, part, finished)
    assert len(counted["runs"]) == 1


def test_what_the_table_lacks_is_said(qtbot, shared, part, finished, show):
    show()
    part.words.setText("a green frog")
    shared.session.run.changed_regions = frozenset([shared.session.run.results.regions[0].key])
    press_find(qtbot, part, finished)
    assert "1 region has changed since" in part.about.text()
    record = shared.session.run.record
    shared.session.show(record.changed(total=6))
    press_find(qtbot, part, finished)
    assert "2 regions were not computed yet." in part.about.text()


def test_surroundings_of_other_pixels_are_not_used_again(
    qtbot, shared, part, finished, messages, show
):
    show()
    image = shared.session.run.image
    part.words.setText("a green frog")
    part.surroundings.setChecked(True)

    def is_reused():
        press_find(qtbot, part, finished)
        return "embeddings that there are" in part.about.text()

    assert not is_reused()
    assert is_reused()
    # Changed in place, where nobody is told; and another array.
    image.data[:40] = 255 - image.data[:40]
    assert not is_reused()
    image.data = np.ascontiguousarray(image.data[::-1])
    assert not is_reused()
    assert is_reused()
    # As of a run that was cancelled: its last regions have no results.
    compared = shared.session.explore.order.compared
    first = Results(compared.results.info, compared.results.regions[:1])
    object.__setattr__(compared, "results", first)
    assert not is_reused()
    assert not messages


def test_surroundings_of_all_planes_are_used_again_whichever_is_shown(
    qtbot, shared, part, finished, counted
):
    viewer, session = shared.viewer, shared.session
    stack = viewer.add_image(np.stack([picture(60, 80, seed=seed) for seed in (1, 2)]), rgb=True)
    labels = np.zeros((2, 60, 80), np.uint8)
    labels[0, 5:25, 5:30], labels[1, 30:50, 40:70] = 1, 2
    session.choose(image=stack, regions=viewer.add_labels(labels, name="planes"))
    session.run.scope = replace(session.run.scope, planes="each")
    part.surroundings.setChecked(True)
    part.words.setText("a green frog")
    for plane in (0, 1):
        viewer.dims.set_current_step(0, plane)
        order = press_find(qtbot, part, finished)
    assert sorted(ids_in_order(order)) == [1, 2]
    assert len(counted["runs"]) == 1


def test_small_regions_of_a_large_image_are_found(qtbot, shared, part, finished):
    viewer, scene = shared.viewer, load_scene("everyday-1")
    large = np.full((3000, 3000, 3), 200, np.uint8)
    labels = np.zeros((3000, 3000), np.uint8)
    large[100:612, 100:612], labels[100:612, 100:612] = scene.image, scene.regions
    image = viewer.add_image(large, rgb=True)
    shared.session.choose(image=image, regions=viewer.add_labels(labels, name="large"))
    part.surroundings.setChecked(True)
    part.words.setText("a green frog")
    order = press_find(qtbot, part, finished)
    assert scene.truth[ids_in_order(order)[0]] == "frog"
    part.whole.setChecked(True)
    order = press_find(qtbot, part, finished)
    assert all(region.low_resolution for region in order.compared.results.regions)


def test_a_search_ends_with_its_words_its_results_or_by_another_order(
    qtbot, shared, part, finished, show
):
    session = shared.session

    def search():
        part.words.setText("a green frog")
        return press_find(qtbot, part, finished)

    show()
    assert search() is not None
    part.words.clear()
    assert session.explore.order is None
    assert search() is not None
    show()  # results of another run
    assert session.explore.order is None
    assert search() is not None
    session.show(session.run.record.changed(table=None))  # the same run with other limits
    assert session.explore.order is not None
    session.explore.order = None  # as the table and the gallery do it
    assert "most like first" not in part.about.text()


def test_finding_can_be_cancelled(qtbot, part, finished, slow, messages):
    part.words.setText("the dog on the left")
    part.find.click()
    qtbot.waitUntil(lambda: len(slow.reached) > 0)
    assert not part.find.isEnabled()
    part.progress.cancel.click()
    slow.go.release(3)
    finished(part)
    assert slow.closed.is_set()
    assert part.find.isEnabled()
    assert part.table.isHidden()
    assert not messages


@pytest.fixture
def stored_search(monkeypatch):
    """Searches among stored regions, which have begun and wait for ``go``."""
    search = SimpleNamespace(begun=threading.Event(), go=threading.Event())

    def search_regions(query, source, place, store):
        search.begun.set()
        search.go.wait(60)
        about = "A late answer."
        return FoundRegions(
            looked_for=query.words, about=about, source=place, hits=(), table=no_regions()
        )

    monkeypatch.setattr(find_section, "search_regions", search_regions)
    yield search
    search.go.set()


@pytest.mark.parametrize("source", [PROJECT, LIBRARY])
@pytest.mark.parametrize("change", ["nothing", "other regions", "no words"])
def test_a_search_gives_no_order_of_another_project_or_library_or_without_its_words(
    qtbot, shared, part, finished, stored_search, source, change
):
    session = shared.session
    session.project.state = ProjectState("cells", file="cells.yaml")
    session.explore.library = Library.in_memory()
    part.where.setCurrentIndex(part.where.findData(source))
    part.words.setText("frog")
    press(qtbot, part.find)
    qtbot.waitUntil(stored_search.begun.is_set)
    if change == "no words":
        part.words.clear()
        part.words.setText("house")  # for the next search
    elif change == "other regions" and source == PROJECT:
        session.project.state = ProjectState("others", file="others.yaml")
    elif change == "other regions":
        session.explore.library = Library.in_memory()
    stored_search.go.set()
    finished(part)
    qtbot.waitUntil(lambda: part.job.idle)
    assert (session.explore.order is not None) == (change == "nothing")


def test_a_search_of_the_image_gives_no_order_of_the_results_of_a_run_before(
    qtbot, shared, part, finished, show, monkeypatch
):
    begun, go = threading.Event(), threading.Event()

    def search_image(query, regions, store):
        begun.set()
        go.wait(60)
        return FoundRegions(
            looked_for="frog", about="Late.", source=IMAGE, hits=(), table=no_regions()
        )

    monkeypatch.setattr(find_section, "search_image", search_image)
    show()
    part.words.setText("frog")
    press(qtbot, part.find)
    qtbot.waitUntil(begun.is_set)
    show()  # results of another run
    go.set()
    finished(part)
    qtbot.waitUntil(lambda: part.job.idle)
    assert shared.session.explore.order is None
