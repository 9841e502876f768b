"""Arrays that are not NumPy's, which napari shows: torch, tensorstore, CuPy and others.

napari PR #3153, PR #6553, #7469; constantinpape/heimdall PR #6.
"""

import numpy as np
import pytest
import torch
from dask.array import from_array
from napari.components import ViewerModel

from napari_maskinversion.app.layer_input.coordinates import ViewPoint
from napari_maskinversion.app.layer_input.input_pictures import copy_picture
from napari_maskinversion.app.layer_input.run_input import RunInput, copy_regions, picture_digest
from napari_maskinversion.base.errors import InputError

IMAGE = np.random.default_rng(0).integers(0, 255, (3, 40, 60, 3), np.uint8)
LABELS = np.zeros((3, 40, 60), np.int32)
LABELS[:, 5:20, 8:30], LABELS[1, 25:38, 35:55] = 3, 9


class Other:
    """An array with the least that napari needs."""

    kind = 'dtype("{}")'  # as tensorstore writes types

    def __init__(self, array, refuses=False):
        self.array, self.refuses = array, refuses
        self.shape, self.ndim, self.size = array.shape, array.ndim, array.size
        self.dtype = self.kind.format(array.dtype)

    def __getitem__(self, key):
        return type(self)(self.array[key], self.refuses)

    def __array__(self, dtype=None, copy=None):
        if self.refuses:
            raise OSError("the store is gone")
        return np.asarray(self.array)


class LikeCupy(Other):
    """Its pixels leave the device on request only; here napari does not ask for them."""

    kind = "{}"

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self.array


def run_input(image, labels, rgb=True, planes="shown", shown=None):
    """Make a run's input of layers that show the NumPy arrays, and hold the others."""
    viewer = ViewerModel()
    layer = viewer.add_image(IMAGE if rgb else IMAGE[..., 0], rgb=rgb, contrast_limits=(0, 255))
    cells = viewer.add_labels(LABELS)
    layer._data, cells._data = image, labels  # what napari makes of them is its own affair
    viewer.dims.set_point(0, 1)
    view, only = ViewPoint.of(viewer), planes == "shown"
    picture = copy_picture(layer, view, shown_only=only)
    return RunInput(
        view=view,
        picture=picture,
        regions=copy_regions(cells, view, shown_only=only),
        planes=planes,
    )


@pytest.mark.parametrize("make", [torch.from_numpy, Other, LikeCupy, lambda a: a])
@pytest.mark.parametrize("planes", ["shown", "largest"])
def test_they_give_the_same_pixels_and_regions(make, planes):
    for rgb, pixels in ((True, IMAGE), (False, np.ascontiguousarray(IMAGE[..., 0]))):
        given = make(pixels), make(LABELS)
        tasks = run_input(*given, rgb, planes).tasks()
        assert [task.regions.ids for task in tasks] == (
            [[3, 9]] if planes == "shown" else [[3], [9]]
        )
        for task in tasks:
            ((_, number),) = task.position
            whole = task.source.read(0, (0, 0, 40, 60))
            np.testing.assert_array_equal(whole, pixels[number])
        first, again = (picture_digest(run_input(*given, rgb).picture) for _ in range(2))
        assert first == again  # the same layer is not an image that has changed


@pytest.mark.parametrize(
    ("array", "why"), [(Other(IMAGE, refuses=True), "the store is gone"), (None, "of no type")]
)
def test_what_cannot_be_read_is_one_line_with_a_way_out(array, why):
    if array is None:
        array = Other(IMAGE)
        array.dtype = "strange"
    with pytest.raises(InputError, match=f"Layer 'IMAGE' .*{why}.*numpy.asarray") as error:
        run_input(array, LABELS).tasks()[0].source.read(0, (0, 0, 9, 9))
    assert "\n" not in str(error.value)


def test_dask_arrays_of_unknown_size_are_refused_with_what_to_do():
    labels = from_array(LABELS)
    with pytest.raises(InputError, match=r"unknown size; give the layer data.compute_chunk_sizes"):
        run_input(IMAGE, labels[labels.sum((1, 2)) > 0])


@pytest.fixture
def odd_viewer(viewer):
    """A viewer with layers of which parts of the panel cannot make anything."""
    layer = viewer.add_image(IMAGE[..., 0], name="odd")
    layer._data = torch.from_numpy(IMAGE[..., 0].copy())
    cells = viewer.add_labels(LABELS)
    cells._data = Other(LABELS, refuses=True)
    cells._data.shape = None
    return viewer


def test_the_panel_opens_whatever_the_layers_hold(odd_viewer, dock):
    panel = dock()
    assert panel.input.image.layer.name == "odd"
    assert not panel.input.three_planes.isVisible()
    assert panel.tabs.areas["label"].widget() is not None


def test_a_part_that_fails_does_not_keep_the_panel_from_opening(viewer, dock, monkeypatch):
    def fail(*_):
        raise AttributeError("no such thing")

    monkeypatch.setattr("napari_maskinversion._napari.run.content", fail)
    monkeypatch.setattr("napari_maskinversion._napari.explore.find_section.FindSection.bind", fail)
    panel = dock(words=None)
    shown = panel.foot.status.text()
    assert "The part 'finder' does not work: no such thing" in shown
    assert panel.tabs.areas["label"].isVisibleTo(panel)
