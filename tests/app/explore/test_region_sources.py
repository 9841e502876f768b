"""Regions with their crops: of this image, of a project, of a library."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.app.explore.region_sources import (
    library_source,
    of_image,
    of_library,
    of_project,
    open_region,
)
from napari_maskinversion.app.session import ProjectState, RegionPlace
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import archive_file
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.thumbnails import outlined
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.export.archive import open_archive, save_archive
from tests._napari.images.conftest import save
from tests.library.made import bundle, write_image
from tests.scenes import picture


def test_regions_of_this_image(shared, show, results):
    show()
    session = shared.session
    drawn = [PlaneRegions((), Regions.from_labels(load_scene("everyday-1").regions))]
    session.show(session.run.record.changed(masks=drawn))
    table = of_image(session)()
    assert list(table.frame["suggestion"]) == [one.suggestion for one in results.regions]
    assert table.frame["confidence"].between(0, 1).all()
    np.testing.assert_allclose(table.embed([1, 0]), results.embeddings[[1, 0]], atol=1e-3)
    pictures = dict(table.thumbnails(range(len(results))))
    assert set(pictures) == set(range(len(results)))
    assert all(one.ndim == 3 and max(one.shape) <= 96 for one in pictures.values())
    open_region(session, table.place(2))
    assert (session.review.row, session.review.picked) == (2, True)


def test_regions_of_a_project_are_those_of_its_stored_results(shared, computed_once):
    session, project = shared.session, OpenProject.read(computed_once)
    names = tuple(project.by_name)
    session.project.state = ProjectState("cells", names, current=names[0], file=str(project.file))
    table = of_project(session)()
    stored = {name: open_archive(archive_file(project, name)).results.regions for name in names[:2]}
    want = [(name, one.id, one.suggestion) for name in stored for one in stored[name]]
    have = table.frame[["image", "region", "suggestion"]]
    assert list(have.itertuples(index=False, name=None)) == want
    last = len(want) - 1
    other = stored[names[1]][-1]
    np.testing.assert_allclose(table.embed([last, 0])[0], other.embedding, atol=1e-3)
    assert table.row_of(table.file(names[1]), RegionKey(other.id, other.position)) == last
    pictures = dict(table.thumbnails([last, 0]))
    assert all(pictures[row] is not None for row in (0, last))
    asked = []
    session.project.open_region.connect(asked.append)
    open_region(session, table.place(last))
    assert asked == [RegionPlace(names[1], other.key, table.file(names[1]))]


def test_images_that_were_run_with_other_settings_are_not_compared(shared, computed_once, tmp_path):
    folder = shutil.copytree(computed_once, tmp_path / "copy")
    session, project = shared.session, OpenProject.read(folder)
    session.project.state = ProjectState("cells", tuple(project.by_name), file=str(project.file))
    table = of_project(session)()
    assert len(table.embed(range(len(table.frame)))) == len(table.frame)
    file = archive_file(project, next(iter(project.by_name)))
    stored = open_archive(file)
    info = replace(stored.results.info, fingerprint="another model")
    save_archive(replace(stored, results=replace(stored.results, info=info)), file)
    table = of_project(session)()
    with pytest.raises(InputError, match="different settings"):
        table.embed(range(len(table.frame)))


def test_an_image_that_is_gone_or_another_one_has_no_crops(shared, computed_once, tmp_path):
    folder = shutil.copytree(computed_once, tmp_path / "copy")
    session, project = shared.session, OpenProject.read(folder)
    session.project.state = ProjectState("cells", tuple(project.by_name), file=str(project.file))
    table = of_project(session)()
    project.path("cell-1.png").unlink()
    pictures = dict(table.thumbnails(range(len(table.frame))))
    gone = set(np.flatnonzero(table.frame["image"] == "cell-1.png"))
    assert gone == {row for row, one in pictures.items() if one is None}
    save(project.path("cell-2.png"), picture(64, 64, 9))  # of the same size
    assert not any(one is not None for _, one in table.thumbnails(range(len(table.frame))))


def test_regions_of_a_library(tmp_path):
    library = Library.new(tmp_path / "library")
    one = bundle(4, decisions=["accepted", "rejected", "undecided", "undecided"])
    library.add(one, image=write_image(tmp_path))
    library.add(bundle(4, fingerprint="other model"))  # the same regions again, in another space
    table = library_source(library).table()
    assert list(table.frame["decision"]) == ["accepted", "rejected", "undecided", "undecided"]
    assert list(table.frame["label"]) == ["dust", "", "", ""]
    assert table.frame["id"].is_unique
    np.testing.assert_allclose(table.embed([3, 1]), one.results.embeddings[[3, 1]], atol=2e-3)
    assert all(picture is not None for _, picture in table.thumbnails(range(4)))


def test_what_is_not_there_is_said(shared):
    for source in (of_image, of_project, of_library):
        with pytest.raises(InputError):
            source(shared.session)


def test_the_outline_lies_on_the_border_of_the_region():
    pixels = np.full((20, 20, 4), 100, np.uint8)
    pixels[..., 3] = 0
    pixels[5:15, 5:15, 3] = 255
    picture = outlined(pixels)
    shades = [[*picture[at, 5:15, 0]] for at in (3, 4, 5)]
    assert shades == [10 * [100], 10 * [0], 10 * [255]]
    assert (picture[6:14, 6:14] == 100).all()
