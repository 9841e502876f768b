"""Find in the project and in the library: the gallery shows it, and it opens on its images."""

from dataclasses import replace
from functools import partial

import numpy as np
import tifffile
from qtpy.QtCore import Qt

from napari_maskinversion._napari.explore import find_section
from napari_maskinversion._napari.layers import results_on_canvas
from napari_maskinversion._napari.library.library_controller import _placed_as_in
from napari_maskinversion.app.explore import region_sources, searches
from napari_maskinversion.app.explore.region_sources import library_source, open_region
from napari_maskinversion.app.layer_input.layer_facts import FILE
from napari_maskinversion.app.session import RegionPlace
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.base.progress import tick
from napari_maskinversion.batch.opened import OpenProject, edit
from napari_maskinversion.batch.project_decisions import add_to_library
from napari_maskinversion.batch.project_index import archive_file
from napari_maskinversion.library.library import Library
from napari_maskinversion.results.results import Results
from tests.library.made import bundle, write_image
from tests.scenes import picture

from .conftest import accept_all, open_project, suggested, undo_all

PROJECT, LIBRARY = 1, 2  # places to search in


def search(qtbot, panel, words=""):
    part = panel.finder
    if words:
        part.words.setText(words)
        qtbot.keyClick(part.words, Qt.Key.Key_Return)
    else:
        part.like.click()
    qtbot.waitUntil(lambda: not part.job.busy)
    return panel.session.explore.order


def open_found(panel, number):
    """Open a region of the gallery, as a click or Return there does; return where it is."""
    wall = panel.gallery.model
    (row,) = wall.rows(number, number)
    panel.gallery.wall.opened.emit(int(row))
    return panel.session.explore.order.hits[number].place


def words_on_the_wall(panel):
    frame = panel.gallery.model.table.frame
    return frame["suggestion"].iloc[panel.gallery.model.rows(0, 99)].tolist()


def test_what_is_found_in_the_project_comes_first_in_the_gallery_and_opens_on_its_image(
    qtbot, panel, computed, monkeypatch
):
    part, session, gallery = panel.finder, panel.session, panel.gallery
    panel.reveal("explore")
    part.section.open()
    part.where.setCurrentIndex(PROJECT)
    assert part.anywhere.isHidden()
    hits = search(qtbot, panel, "a car, not dog").hits
    assert len(hits) == sum(len(set(np.unique(label)) - {0}) for label in _masks(computed))
    assert [hit.similarity for hit in hits] == sorted((h.similarity for h in hits), reverse=True)
    assert gallery.source.currentText() == region_sources.PROJECT
    assert gallery.sort.currentText() == "most like: a car, not dog"
    frame, shown = gallery.model.table.frame, gallery.model.rows(0, 99)
    assert [hit.place.key.id for hit in hits] == frame["region"].iloc[shown].tolist()
    assert [hit.place.image for hit in hits] == frame["image"].iloc[shown].tolist()
    assert all(picture is not None for _, picture in gallery.model.table.thumbnails(shown))
    text = f"'a car, not dog': {len(hits)} regions in computed, most like first. 1 images"
    assert text in part.about.text()
    # The region shown is among them, so that its table is sorted, too.
    assert panel.results.order.text() == "Most like: a car, not dog"
    # Only those with a decision, or of a class.
    part.only.setCurrentText("rejected")
    assert not search(qtbot, panel, "a car, not dog").hits
    assert part.about.text().startswith("No region in computed is 'rejected'.")
    assert gallery.about.text() == part.about.text()
    word = frame["suggestion"].iloc[shown[0]]
    part.only.setCurrentText(word)
    same = [hit.place for hit, name in zip(hits, frame["suggestion"], strict=True) if name == word]
    assert [hit.place for hit in search(qtbot, panel, "a car, not dog").hits] == same
    assert set(words_on_the_wall(panel)) == {word}
    part.only.setCurrentText("all")
    hits = search(qtbot, panel, "a car, not dog").hits
    other = next(
        n for n, hit in enumerate(hits) if hit.place.image != session.project.state.current
    )
    place = open_found(panel, other)
    qtbot.waitUntil(lambda: session.project.state.current == place.image)
    assert session.run.results.regions[session.review.row].id == place.key.id
    assert session.review.picked  # so that it comes into view
    # The region shown is an example: it is like itself, most of all.
    order = search(qtbot, panel)
    best = order.hits[0]
    assert (best.place, round(best.similarity, 3)) == (place, 1)
    # Cancel leaves the order as it is.
    with monkeypatch.context() as patch:
        search_library = Library.search
        patch.setattr(
            Library,
            "search",
            lambda *a, **k: (part.job.cancel(), tick("Rows", 0, 0), search_library(*a, **k))[2],
        )
        assert search(qtbot, panel, "a dog") is order
    # The usual order has all regions again.
    gallery.sort.setCurrentIndex(0)
    gallery.sort.activated.emit(0)
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    assert session.explore.order is None
    assert len(gallery.model.table.frame) == len(hits)
    assert not panel.results.model.is_sorted
    # Results that cannot be read are told.
    archive_file(OpenProject.read(computed), place.image).write_bytes(b"damaged")
    hits = search(qtbot, panel, "a car, not dog").hits
    assert place.image not in {hit.place.image for hit in hits}
    assert "in computed, most like first. 2 images have no results" in part.about.text()
    gallery.hide()


def test_of_many_images_the_best_are_shown_and_reload_shows_all(
    qtbot, panel, computed, monkeypatch
):
    part, gallery = panel.finder, panel.gallery
    part.where.setCurrentIndex(PROJECT)
    total = len(search(qtbot, panel, "a car").hits)
    query = partial(searches.Query, top=2)
    monkeypatch.setattr(find_section, "Query", query)
    assert len(search(qtbot, panel, "a car").hits) == 2
    assert f"'a car': the best 2 of {total} regions in computed" in part.about.text()
    assert f"the best 2 of {total} regions" in gallery.about.text()
    assert len(gallery.model.rows(0, 99)) == 2
    gallery.reload.click()
    qtbot.waitUntil(lambda: not gallery.loader.busy)
    assert len(gallery.model.table.frame) == total
    assert gallery.sort.currentText() == "by word"
    gallery.hide()


def _masks(folder):
    from skimage.io import imread

    return [imread(file) for file in sorted((folder / "masks").glob("*.png"))]


def test_what_is_found_in_the_library_opens_in_the_project_or_as_a_file(
    qtbot, panel, computed, tmp_path, messages, monkeypatch
):
    monkeypatch.setattr(results_on_canvas, "_visible", lambda *_: False)  # there is no window
    part, session = panel.finder, panel.session
    part.where.setCurrentIndex(LIBRARY)
    search(qtbot, panel, "car")
    assert messages[-1] == "Choose a library first, above."
    library = session.explore.library = Library.new(tmp_path / "library")
    for name in ("cell-1.png", "cell-2.png"):
        add_to_library(OpenProject.read(computed), name, library)
    part.only.setCurrentText("accepted")
    assert not search(qtbot, panel, "car").hits
    part.only.setCurrentText("undecided")
    hits = search(qtbot, panel, "car").hits
    assert len(hits) == library.info()["regions"]
    model = panel.store.load(session.run.settings.model, session.run.settings.device)
    answers = library.search("car", model=model)  # of the command line, and of Python
    assert [hit.similarity for hit in hits] == answers["similarity"].tolist()
    assert panel.gallery.model.table.frame["id"].tolist() == answers["id"].tolist()
    assert panel.gallery.model.rows(0, 99).tolist() == [*range(len(hits))]
    other = next(n for n, hit in enumerate(hits) if "cell-2" in hit.place.image)
    open_found(panel, other)
    qtbot.waitUntil(lambda: session.project.state.current == "cell-2.png")
    assert session.run.results.regions[session.review.row].id == hits[other].place.key.id
    assert session.run.results.regions[session.review.row].bbox == hits[other].place.box
    # Drawn again, another region may have its number.
    assert not session.select_place(replace(hits[other].place, box=(0, 0, 1, 1)))
    assert panel.gallery.model.table.place(other).box == hits[other].place.box
    panel.gallery.hide()
    # Of an image that no project has, the file is opened.
    file = write_image(tmp_path, 3)
    library.add(bundle(3, seed=3), image=file)
    place = RegionPlace.of(ImagePlace(file.as_posix()), RegionKey(2))
    session.project.open_region.emit(place)
    qtbot.waitUntil(lambda: session.run.image.name == "image-3.png")
    y0, x0, y1, x1 = library.rows(image="image-3.png").iloc[1][["y0", "x0", "y1", "x1"]]
    np.testing.assert_allclose(
        panel.viewer.scene.camera.center[-2:],
        [(y0 + y1 - 1) / 2, (x0 + x1 - 1) / 2],
        rtol=0,
        atol=1e-9,
    )
    before = len(panel.viewer.layers)
    session.project.open_region.emit(RegionPlace.of(ImagePlace(file.as_posix()), RegionKey(3)))
    qtbot.waitUntil(lambda: not panel.images.elsewhere.reader.busy)
    assert len(panel.viewer.layers) == before
    for change, why in (
        (lambda: write_image(tmp_path, 4).replace(file), "has changed"),
        (file.unlink, "the image is gone"),
    ):
        change()
        session.project.open_region.emit(place)
        qtbot.waitUntil(lambda: not panel.images.elsewhere.reader.busy)
        assert why in messages[-1]


def test_regions_of_a_stack_are_known_once_and_shown_on_their_plane(qtbot, panel, tmp_path):
    pixels = np.stack([picture(seed=n)[..., 0] for n in range(3)])
    file = tmp_path / "stack.tif"
    tifffile.imwrite(file, pixels, metadata={"axes": "ZYX"}, ome=True)
    library = panel.session.explore.library = Library.new(tmp_path / "library")
    results = bundle(2, pixels=pixels)
    for position in ((("axis 0", 2),), (("z", 2),)):  # of napari's reader, of the command line
        library.add(_placed_as_in(file, results, position), image=file)
    assert library.rows()["plane"].tolist() == ["z=2", "z=2"]
    same = str(library.folder / ".." / "stack.tif")
    panel.viewer.add_image(pixels, name="stack", metadata={FILE: same})
    panel.viewer.dims.set_point(0, 0)
    key = RegionKey(2, (("z", 2),))
    panel.session.project.open_region.emit(RegionPlace.of(ImagePlace(file.as_posix()), key))
    qtbot.waitUntil(lambda: panel.viewer.dims.point[0] == 2)
    assert panel.session.run.image.name == "stack"


def test_of_a_file_with_several_images_the_one_of_the_region_is_opened(qtbot, panel, tmp_path):
    file, session = tmp_path / "two.tif", panel.session
    library = session.explore.library = Library.new(tmp_path / "library")
    pixels = [picture(seed=n)[..., 0] for n in range(2)]
    with tifffile.TiffWriter(file, ome=True) as writer:
        for one in pixels:
            writer.write(one, metadata={"axes": "YX"})
    for series in range(2):
        made = bundle(2, seed=series, pixels=pixels[series])
        settings = made.results.info.settings.changed({"series": series})
        info = replace(made.results.info, settings=settings)
        results = Results(info, made.results.regions)
        library.add(replace(made, results=results), image=file)
    for series in (1, 0):
        place = ImagePlace(file.as_posix(), series)
        session.project.open_region.emit(RegionPlace.of(place, RegionKey(2)))
        qtbot.waitUntil(lambda: not panel.images.elsewhere.reader.busy)
        np.testing.assert_array_equal(session.run.image.data, pixels[series])
    # So does the gallery, which calls the second one "(1)".
    table = library_source(library).table()
    frame = table.frame
    (row,) = frame.index[(frame["image"] == f"{file.as_posix()} (1)") & (frame["region"] == 2)]
    open_region(session, table.place(row))
    qtbot.waitUntil(lambda: not panel.images.elsewhere.reader.busy)
    np.testing.assert_array_equal(session.run.image.data, pixels[1])
    table.find_here(session)
    table.select(session, [0, row])
    assert table.selected(session).tolist() == [0, row]


def test_a_project_adds_what_it_computes_to_its_library(qtbot, panel, project):
    edit(project / "project.yaml", lambda content: content.changed(library="found"))
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    library = Library.open(project / "found")
    assert library.info()["images"] == 2
    # Into another one they all go with a click.
    other = panel.session.explore.library = Library.new(project / "other")
    panel.library.whole.trigger()
    qtbot.waitUntil(lambda: not panel.library.adding.busy)
    assert other.info()["regions"] == library.info()["regions"]
    panel.session.explore.library = library
    accept_all(qtbot, panel, "car", "dog")
    qtbot.waitUntil(lambda: library.info()["decisions"].keys() == {"accepted"})
    undo_all(qtbot, panel)
    qtbot.waitUntil(lambda: "undecided" in library.info()["decisions"])
