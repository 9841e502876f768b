"""Results of a file on an image again: stacks, and a closer look at a region."""

from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.app.layer_input.label_layers import layer_of_regions, why_no_layer
from napari_maskinversion.app.layer_input.run_input import identities
from napari_maskinversion.app.requests.preparing import prepare
from napari_maskinversion.app.session import staleness
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.annotations.annotation_reading import read_annotations
from napari_maskinversion.results.export.archive import open_archive, save_archive
from tests._napari.explore.test_why_widget import choose, heat, opened, press, wait
from tests._napari.running import job_ends
from tests.engine.tiny import tiny_clip

from .test_export_controller import reopen, save

PLANES = {(0, 1): 3, (0, 3): 5, (2, 3): 3}  # of (t, z): a label; 3 is there twice


def test_a_stack_comes_back_plane_by_plane(qtbot, widget, slow, run_to_end, tmp_path, messages):
    viewer = widget._viewer
    viewer.layers.clear()
    place = {"scale": (1, 5, 2, 2), "translate": (0, 10, 3, 4)}
    image = viewer.add_image(np.random.rand(3, 4, 30, 40), name="stack", **place)
    labels = np.zeros((3, 4, 30, 40), np.uint8)
    for number, (at, label) in enumerate(PLANES.items()):
        labels[at][4 : 9 + number, 6:12] = label
    viewer.add_labels(labels, **place)
    viewer.dims.axis_labels = ("t", "z", "y", "x")
    widget.input.scope.planes.setCurrentIndex(2)  # plane by plane
    slow.free = True
    run_to_end(widget)
    before = widget.results.results.to_frame()
    assert before[["t", "z"]].to_numpy().tolist() == [list(at) for at in PLANES]
    path = save(qtbot, widget, "npz", tmp_path)
    viewer.layers.remove(viewer.layers[1])
    viewer.dims.set_point(0, 1)
    widget.input.scope.planes.setCurrentIndex(0)  # as in a new window
    reopen(qtbot, widget, path)
    with job_ends(qtbot, widget.changes.job):
        widget.session.run.edits += 1
    assert not widget.session.run.changed_regions
    assert not staleness(widget.session).scope
    assert "Opened 3 regions of results.npz." in messages[-1]
    layer = widget.input.regions.layer
    np.testing.assert_array_equal(layer.data, labels)
    np.testing.assert_allclose(
        layer.data_to_world((2, 3, 4, 5)), image.data_to_world((2, 3, 4, 5)), rtol=0, atol=1e-9
    )
    assert widget.results.results.to_frame().equals(before)
    for row in (2, 0, 1):
        widget.results.table.selectRow(row)
        t, z = list(PLANES)[row]
        assert tuple(viewer.dims.point[:2]) == (t, 10 + 5 * z)
        shown = widget.canvas.heatmap.layer
        assert shown.world_to_data(image.data_to_world((t, z, 15, 20)))[:2] == pytest.approx((0, 0))
    annotations = read_annotations(save(qtbot, widget, "coco", tmp_path), (30, 40))
    assert [item.position for item in annotations.items] == [
        (("t", t), ("z", z)) for t, z in PLANES
    ]


def test_planes_go_by_the_order_of_axes_whose_names_may_be_equal():
    mask = np.ones((2, 2), bool)
    places = {1: (1, 2), 2: (2, 3)}
    regions = [
        ((("", first), ("", second)), Region(label, (0, 0, 2, 2), mask))
        for label, (first, second) in places.items()
    ]
    pixels, _ = layer_of_regions(regions, (3, 4, 5, 5), (2, 3))
    for label, place in places.items():
        assert pixels[place][0, 0] == label


def test_regions_below_others_come_back_whole(qtbot, widget, slow, run_to_end, tmp_path):
    viewer, slow.free = widget._viewer, True
    viewer.layers.clear()
    viewer.add_image(np.random.rand(30, 40, 3), name="photo", rgb=True)
    large, small = np.ones((20, 16), bool), np.ones((5, 6), bool)
    regions = [((), Region(1, (2, 2, 22, 18), large))]
    regions += [((), Region(label, (8, 8, 13, 14), small)) for label in (2, 3)]
    pixels, about = layer_of_regions(regions, (30, 40), (0, 1))
    cells = viewer.add_labels(pixels, name="cells", **about)
    run_to_end(widget)
    path = save(qtbot, widget, "npz", tmp_path)
    viewer.layers.remove(cells)
    reopen(qtbot, widget, path)
    again = run_input(widget)
    viewer.dims.order = (1, 0)  # also with rows for columns
    for one in (again, run_input(widget)):
        (task,) = one.tasks()
        assert [region.area for region in task.regions] == [320, 30, 30]
    assert {one.mask for one in identities(again.tasks())} == {
        one.mask for one in widget.session.run.record.identities
    }


def run_input(widget):
    return prepare(widget._viewer, widget.session)


def test_why_and_compare_work_where_image_and_model_are_here(qtbot, answered, tmp_path, messages):
    part = opened(qtbot, answered, 0)
    why, compare = answered.why, answered.compare
    choose(qtbot, part.mode, "the steps of the optimisation")
    wait(qtbot, why.job)
    before, curve = heat(answered), part.curve.text
    path = save(qtbot, answered, "npz", tmp_path)
    answered._viewer.layers.remove("cells")
    answered.session.forget_results()

    reopen(qtbot, answered, path)
    answered.results.table.selectRow(0)
    wait(qtbot, why.job)
    assert part.curve.text == curve
    np.testing.assert_allclose(heat(answered), before, atol=1e-6)
    choose(qtbot, part.mode, "where a word is")
    wait(qtbot, why.job)
    assert part.line.text() == ""
    # Another image under the same name is said.
    image = answered._viewer.layers["photo"]
    pixels = image.data
    image.data = pixels[::-1].copy()
    choose(qtbot, part.mode, "one word against another")
    wait(qtbot, why.job)
    assert "image" in part.line.text()
    image.data = pixels
    side = opened(qtbot, answered, 1)
    press(qtbot, side.compare)
    wait(qtbot, compare.job)
    assert "Cosine of the two embeddings" in side.verdict.text()
    assert len(messages) == 2  # saved, opened


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            "ViT-B-16/openai",
            "ViT-B-16/openai, is not on this machine: press Fetch in Settings > Model",
        ),
        ("my-own", "my-own, is not on this machine: press Fetch in Settings > Model, or choose"),
        ("demo", "The model demo is not the one of this run any more; run again"),
    ],
)
def test_without_the_model_why_says_what_to_do_and_fetches_nothing(
    qtbot, answered, tmp_path, monkeypatch, no_network, model, says
):
    bundle = open_archive(save(qtbot, answered, "npz", tmp_path))
    settings = bundle.results.info.settings.changed({"model": model})
    info = replace(bundle.results.info, settings=settings)
    save_archive(replace(bundle, results=replace(bundle.results, info=info)), tmp_path / "r.npz")
    other = _other_model()
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: False)
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: other)
    reopen(qtbot, answered, tmp_path / "r.npz")
    part = opened(qtbot, answered, 0)
    answered.results.table.selectRow(0)
    choose(qtbot, part.mode, "where a word is")
    wait(qtbot, answered.why.job)
    assert says in answered.foot.status.text()


def test_results_of_an_own_model_are_explained_by_the_file_that_is_chosen(
    qtbot, answered, tmp_path, monkeypatch
):
    bundle = open_archive(save(qtbot, answered, "npz", tmp_path))
    own = tmp_path / "mine" / "weights.safetensors"
    own.parent.mkdir()
    own.write_bytes(b"")
    settings = bundle.results.info.settings.changed({"model": own.stem})
    info = replace(bundle.results.info, settings=settings)
    save_archive(replace(bundle, results=replace(bundle.results, info=info)), tmp_path / "r.npz")
    loaded, other = [], _other_model()
    monkeypatch.setattr(ModelStore, "get", lambda _, name, device: loaded.append(name) or other)
    answered.session.run.change_settings({"model": str(own), "architecture": "ViT-B-32"})
    reopen(qtbot, answered, tmp_path / "r.npz")
    part = opened(qtbot, answered, 0)
    answered.results.table.selectRow(0)
    choose(qtbot, part.mode, "where a word is")
    wait(qtbot, answered.why.job)
    assert loaded[-1] == str(own)
    assert answered.session.run.record.snapshot.settings.architecture == "ViT-B-32"
    assert f"The model {own.stem} is not the one of this run" in answered.foot.status.text()


def _other_model():
    from napari_maskinversion import wrap_open_clip

    return wrap_open_clip(tiny_clip())


@pytest.mark.parametrize(
    ("number", "place", "shape", "reason"),
    [
        (2**31 - 1, (), (9, 9), ""),
        (0, (), (9, 9), "region 0 has a number that no label can have"),
        (900_100_581_904, (), (9, 9), "region 900100581904 has a number"),
        (1, (("z", 1),), (9, 9), "their planes are not those of this image"),
        (1, (), (90_000, 90_000), "90000 x 90000 px are too many"),
    ],
)
def test_it_is_said_why_there_is_no_layer_of_the_regions(number, place, shape, reason):
    region = Region(number, (0, 0, 2, 2), np.ones((2, 2), bool))
    said = why_no_layer([(place, region)], shape)
    assert reason in said
    assert bool(said) == bool(reason)


def test_regions_that_are_not_in_the_file_are_asked_for(qtbot, answered, tmp_path):
    bundle = open_archive(save(qtbot, answered, "npz", tmp_path))
    save_archive(replace(bundle, masks={}), tmp_path / "r.npz")
    reopen(qtbot, answered, tmp_path / "r.npz")
    part = opened(qtbot, answered, 0)
    answered.results.table.selectRow(0)
    choose(qtbot, part.mode, "the steps of the optimisation")
    wait(qtbot, answered.why.job)
    assert "The file of these results holds no regions; run again." in answered.foot.status.text()
