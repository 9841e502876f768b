"""Finding by words, without a window; `test_find_widget.py` has it in the panel."""

from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion._napari.explore.find_section import _COLUMNS, FindSection
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.language.ranking.query import embed_query
from napari_maskinversion.results.results import Results
from tests.scenes import demo_model, picture

from .test_find_widget import press


@pytest.fixture
def part(section):
    return section(FindSection)


def test_embeddings_of_other_pixels_are_not_used_again(qtbot, shared, part, finished, messages):
    image = shared.session.run.image
    part.words.setText("a green frog")

    def reused():
        press(qtbot, part.find)
        finished(part, 120)
        return part.model.finding.reused

    assert not reused()
    assert reused()
    # Changed in place, where nobody is told; and another array.
    image.data[:40] = 255 - image.data[:40]
    assert not reused()
    image.data = np.ascontiguousarray(image.data[::-1])
    assert not reused()
    assert reused()
    # As of a run that was cancelled: its last regions have no results.
    record = part.model.finding.record
    first = Results(record.results.info, record.results.regions[:1])
    object.__setattr__(record, "results", first)
    assert not reused()
    assert not messages
    # Several words, and what is to be avoided, as in a library.
    part.words.setText("a house, not a green frog")
    assert reused()
    query = embed_query(demo_model(), "a house, not a green frog")
    similar = part.model.finding.results.embeddings @ query
    ranked = [match.row for match in part.model.finding.matches]
    assert ranked == np.argsort(-similar).tolist()


def test_embeddings_of_all_planes_are_used_again_whichever_is_shown(
    qtbot, shared, part, finished, counted
):
    viewer, session = shared.viewer, shared.session
    stack = viewer.add_image(np.stack([picture(60, 80, seed=seed) for seed in (1, 2)]), rgb=True)
    labels = np.zeros((2, 60, 80), np.uint8)
    labels[0, 5:25, 5:30], labels[1, 30:50, 40:70] = 1, 2
    session.choose(image=stack, regions=viewer.add_labels(labels, name="planes"))
    session.run.scope = replace(session.run.scope, planes="each")
    part.words.setText("a green frog")
    for plane in (0, 1):
        viewer.dims.set_current_step(0, plane)
        press(qtbot, part.find)
        finished(part, 120)
    assert part.model.rowCount() == 2
    assert len(counted["runs"]) == 1


def test_small_regions_of_a_large_image_are_found_and_the_whole_image_is_told_to_be_too_coarse(
    qtbot, shared, part, finished
):
    viewer, scene = shared.viewer, load_scene("everyday-1")
    large = np.full((3000, 3000, 3), 200, np.uint8)
    labels = np.zeros((3000, 3000), np.uint8)
    large[100:612, 100:612], labels[100:612, 100:612] = scene.image, scene.regions
    image = viewer.add_image(large, rgb=True)
    shared.session.choose(image=image, regions=viewer.add_labels(labels, name="large"))
    part.words.setText("a green frog")

    def best():
        press(qtbot, part.find)
        finished(part, 120)
        return scene.truth[part.model.finding.region(0).id]

    def column(name):
        model, names = part.model, [title for title, _ in _COLUMNS]
        return [model.index(row, names.index(name)).data() for row in range(model.rowCount())]

    assert best() == "frog"
    assert column("Status") == 4 * ["doubtful"]  # the image is none that the demo model knows
    part.whole.setChecked(True)
    best()
    assert column("Status") == 4 * ["low resolution"]


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
