"""Images of several planes and of several channels: regions and decisions come back to them."""

from dataclasses import replace

import numpy as np
import pytest
import tifffile

from napari_maskinversion.app.session import Action, staleness
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project import Project, ProjectImage, write_project
from napari_maskinversion.batch.project_decisions import summarize
from napari_maskinversion.batch.project_index import archive_file
from napari_maskinversion.pipeline.inputs import open_inputs
from napari_maskinversion.results.export.archive import open_archive
from tests._napari.running import job_ends
from tests.scenes import label_image, picture

from .conftest import FAST, accept_all, go, on_disk, open_project, suggested

SECOND = "cell-2.tif"


def stack(kind, number):
    """Return pixels, axes and labels of a small image."""
    rgb = picture(64, 64, number)
    labels = label_image(number, 64, 64)
    if kind == "channels":
        return np.moveaxis(rgb, -1, 0), "CYX", labels
    planes = np.stack([rgb[..., at] for at in range(3)])
    return planes, "ZYX", np.stack([labels, np.zeros_like(labels), labels[::-1]])


@pytest.fixture(params=["planes", "channels"])
def kind(request):
    """What the images have several of."""
    return request.param


@pytest.fixture
def project(tmp_path, kind):
    """The folder of a project of two such images."""
    images = []
    for number in (1, 2):
        name = f"cell-{number}.tif"
        pixels, axes, labels = stack(kind, number)
        for folder in ("images", "masks"):
            (tmp_path / folder).mkdir(exist_ok=True)
        file = tmp_path / "images" / name
        tifffile.imwrite(file, pixels, ome=True, metadata={"axes": axes}, photometric="minisblack")
        about = {"axes": axes.replace("C", "")}
        tifffile.imwrite(tmp_path / "masks" / name, labels, ome=True, metadata=about)
        images.append(ProjectImage(name=name, image=f"images/{name}", regions=f"masks/{name}"))
    settings = {**FAST, "planes": "each"}
    made = Project(labels=("car", "dog"), settings=settings, images=tuple(images))
    write_project(made, tmp_path / "project.yaml")
    return tmp_path


def test_decisions_are_counted_and_come_back(qtbot, panel, project, kind):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    panel.do(Action.REVIEW)
    qtbot.waitUntil(lambda: panel.review.state is not None)
    total = len(panel.session.run.results)
    positions = {region.position for region in panel.session.run.results.regions}
    assert len(positions) == (2 if kind == "planes" else 1)
    panel.review.act("reject")
    qtbot.waitUntil(lambda: panel.session.review.decided_count == 1)
    on_disk(qtbot, panel)
    first = "cell-1.tif"
    assert summarize(OpenProject.read(project), first).decided == 1
    assert panel.images.part.model.summary(first).decided == 1
    go(qtbot, panel, SECOND)
    go(qtbot, panel, first)
    qtbot.waitUntil(lambda: panel.session.review.decided_count == 1)
    for count in range(1, total):
        panel.review.act("reject")
        qtbot.waitUntil(lambda n=count: panel.session.review.decided_count == n + 1)
    on_disk(qtbot, panel)
    assert OpenProject.read(project).done == {first}


def test_results_on_all_planes_are_compared_with_the_regions_of_all_planes(qtbot, panel, project):
    """Also where the window shows one plane of an image that a batch has computed."""
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    session = panel.session
    with job_ends(qtbot, panel.changes.job):
        session.run.edits += 1
    assert not session.run.changed_regions
    assert not staleness(session)


def test_what_is_accepted_in_all_images_is_seen_when_an_image_is_opened(qtbot, panel, project):
    open_project(qtbot, panel, project)
    suggested(qtbot, panel)
    accept_all(qtbot, panel, "car", "dog")
    assert SECOND in panel.session.project.state.done
    go(qtbot, panel, SECOND)
    qtbot.waitUntil(lambda: panel.session.run.results is not None)
    total = len(panel.session.run.results)
    qtbot.waitUntil(lambda: panel.session.review.decided_count == total)


def test_drawn_regions_stay_on_their_plane_however_the_axes_are_turned(qtbot, panel, project, kind):
    open_project(qtbot, panel, project)
    go(qtbot, panel, SECOND)
    layer, viewer = panel.session.run.regions, panel._viewer
    opened = OpenProject.read(project)
    before = areas(opened)
    if kind == "planes":
        viewer.dims.order = (1, 0, 2)  # rows across planes
        box = np.mgrid[1:2, 4:14, 4:14].reshape(3, -1)
        layer.data_setitem(tuple(box), 99)
        expected = {**before, (99, (("z", 1),)): 100}
    else:
        free = np.argwhere(layer.data == 0)[:2]
        layer.data_setitem(tuple(free.T), 99)
        expected = {**before, (99, ()): 2}
    on_disk(qtbot, panel)
    assert areas(OpenProject.read(project)) == expected


def test_polygons_of_all_planes_are_kept(qtbot, panel, project, kind):
    open_project(qtbot, panel, project)
    go(qtbot, panel, SECOND)
    viewer, deep = panel._viewer, kind == "planes"
    before = areas(OpenProject.read(project))
    mine = viewer.add_shapes(ndim=3 if deep else 2, name="mine")
    panel.session.choose(regions=mine)
    square = np.array([[60, 5], [60, 14], [63, 14], [63, 5]])
    for plane in (0, 1):
        corners = np.column_stack([np.full(4, plane), square]) if deep else square - (40 * plane, 0)
        mine.add_polygons([corners])
    if deep:
        viewer.dims.set_current_step(0, 2)
    on_disk(qtbot, panel)
    after = areas(OpenProject.read(project))
    assert len(after) == len(before) + 2
    assert {key: after[key] for key in before} == before
    new = {position for _, position in set(after) - set(before)}
    assert new == ({(("z", 0),), (("z", 1),)} if deep else {()})


def shown_alone(panel):
    panel.session.run.scope = replace(panel.session.run.scope, channels="layer")


def shown_with_another(panel):
    panel._viewer.add_image(picture(64, 64, 9), name="mine", opacity=0.5)
    panel.session.choose(image=panel.images.shown.images[0])


def looking(**look):
    def change(panel):
        for name, value in look.items():
            setattr(panel.images.shown.images[1], name, value)

    return change


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (looking(), True),
        (looking(contrast_limits=(0, 99)), False),
        (lambda panel: panel._viewer.layers.remove(panel.images.shown.images[1]), False),
        (shown_with_another, False),
        (shown_alone, False),
    ],
    ids=["as opened", "contrast", "removed", "another image", "one alone"],
)
@pytest.mark.parametrize("kind", ["channels"], indirect=True)
def test_results_are_the_projects_only_where_all_channels_look_as_they_were_opened(
    qtbot, panel, project, change, is_kept
):
    open_project(qtbot, panel, project)
    change(panel)
    run(qtbot, panel)
    assert (archive_file(OpenProject.read(project), "cell-1.tif") is not None) == is_kept


@pytest.mark.parametrize("as_opened", [True, False])
@pytest.mark.parametrize("kind", ["channels"], indirect=True)
def test_other_words_for_results_are_kept_where_the_results_were(qtbot, panel, project, as_opened):
    open_project(qtbot, panel, project)
    second = panel.images.shown.images[1]
    looks = [(0, 99), tuple(second.contrast_limits)]
    if not as_opened:
        second.contrast_limits = looks.pop(0)
    run(qtbot, panel)
    second.contrast_limits = looks[0]
    panel.vocabulary.text.setPlainText("cat\nhouse")
    words = ("cat", "house")
    qtbot.waitUntil(lambda: panel.session.run.results.info.vocabulary.labels == words)
    on_disk(qtbot, panel)
    file = archive_file(OpenProject.read(project), "cell-1.tif")
    kept = None if file is None else open_archive(file).results.info.vocabulary.labels
    assert kept == (words if as_opened else None)


def run(qtbot, panel):
    """Run on the image that is shown."""
    panel.start()
    ended(qtbot, panel)


def ended(qtbot, panel):
    """Wait for the results of a run, also on the disk."""
    qtbot.waitUntil(lambda: bool(panel.session.run.results))
    qtbot.waitUntil(lambda: not panel.session.run.progress.running)
    on_disk(qtbot, panel)


def areas(opened):
    """Return the pixels of each region of the second image, by id and plane."""
    regions = opened.regions(SECOND)
    inputs = open_inputs(opened.path(SECOND), regions, opened.settings_of(SECOND))
    with inputs.stack:
        return {
            (region.id, task.position): region.area
            for task in inputs.tasks
            for region in task.regions
        }
