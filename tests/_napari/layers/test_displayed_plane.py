""" "As displayed" is what the canvas shows; "this layer" is the layer by itself."""

import threading
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.colormaps import Colormap

from napari_maskinversion.app.layer_input.coordinates import ViewPoint, plane_of
from napari_maskinversion.app.layer_input.input_pictures import copy_picture
from napari_maskinversion.app.layer_input.layer_facts import FILE, file_of
from napari_maskinversion.app.layer_input.run_input import changes_pixels, shown_to_model
from napari_maskinversion.app.requests.preparing import background_of, image_layers, prepare
from napari_maskinversion.app.session import Scope, Session
from napari_maskinversion.base.errors import InputError
from tests.scenes import label_image, picture

SHAPE = (24, 32)
ZOOM = 8


def source_of(viewer, image, channels="displayed"):
    view = ViewPoint.of(viewer)
    picture = copy_picture(
        image,
        view,
        channels=channels,
        others=image_layers(viewer),
        background=background_of(viewer),
    )
    return picture.source(plane_of(picture.grid, view), view)


def seen(viewer, image, channels="displayed"):
    source = source_of(viewer, image, channels)
    return source.read(0, (0, 0, *source.shape))


def on_canvas(viewer, image):
    """Colours (h, w, 3) at the centres of the image's pixels, from a screenshot."""
    camera = viewer.scene.camera
    camera.zoom = ZOOM
    camera.center = (0, *((np.asarray(SHAPE) - 1) / 2))
    # Odd sides: the centres of the image's pixels are those of pixels of the screen. The size of
    # the window is what the tests before have left.
    shot = viewer.screenshot(canvas_only=True, flash=False, size=(501, 601))[..., :3] / 255
    rows = (np.arange(SHAPE[0]) - (SHAPE[0] - 1) / 2) * ZOOM + shot.shape[0] / 2
    columns = (np.arange(SHAPE[1]) - (SHAPE[1] - 1) / 2) * ZOOM + shot.shape[1] / 2
    return shot[np.ix_(rows.astype(int), columns.astype(int))]


def values(kind, seed):
    unit = np.random.default_rng(seed).random(SHAPE)
    if kind == "bool":
        return unit > 0.5
    if kind == "float":
        unit = (4 * unit - 1).astype(np.float32)
        unit[2, 3], unit[4, 5], unit[6, 7] = np.nan, np.inf, -np.inf
        return unit
    return (unit * np.iinfo(kind).max).astype(kind)


def colours(kind, samples, seed):
    unit = np.random.default_rng(seed).random((*SHAPE, samples))
    return unit.astype(np.float32) if kind == "float" else (255 * unit).astype(np.uint8)


def compare(viewer, image):
    difference = np.abs(seen(viewer, image) - on_canvas(viewer, image))
    # The canvas rounds to eight bits after each layer.
    assert difference.max() <= 1.5 / 255, np.argwhere(difference > 1.5 / 255)[:5]


STACKS = {
    "two channels added": [
        (values("uint16", 1), {"colormap": "green", "blending": "additive"}),
        (values("uint8", 2), {"colormap": "magenta", "blending": "additive", "opacity": 0.6}),
    ],
    "limits, gamma and a colormap of many colours": [
        (values("uint8", 3), {"contrast_limits": (30, 180), "gamma": 1.7, "colormap": "viridis"}),
    ],
    "float with NaN and infinities over a picture": [
        (colours("uint8", 3, 4), {}),
        (values("float", 5), {"contrast_limits": (0, 2), "opacity": 0.5, "colormap": "red"}),
    ],
    "minimum": [
        (values("uint8", 6), {"blending": "minimum", "colormap": "I Blue"}),
        (values("uint8", 7), {"blending": "minimum", "colormap": "I Orange"}),
    ],
    "multiplied": [
        (values("uint8", 8), {"colormap": "gray"}),
        (values("uint8", 9), {"blending": "multiplicative", "colormap": "cyan"}),
    ],
    "opaque above, and one that is hidden": [
        (values("uint8", 10), {}),
        (values("uint32", 11), {"blending": "opaque", "colormap": "yellow"}),
        (values("uint8", 12), {"visible": False}),
    ],
    "colours with opacity over bool": [
        (values("bool", 13), {"colormap": "bop blue"}),
        (colours("float", 4, 14), {"blending": "translucent_no_depth", "rgb": True}),
    ],
    "a translucent one alone on the canvas": [
        (values("uint16", 15), {"opacity": 0.4, "colormap": "red"}),
    ],
}


@pytest.fixture
def shown(window):
    """The window of the module, on the screen."""
    window.show()
    yield window
    window.layers.clear()
    window.theme = "dark"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_as_displayed_equals_the_canvas(shown, theme):
    viewer = shown
    viewer.theme = theme
    for name, stack in STACKS.items():
        viewer.layers.clear()
        for data, options in stack:
            image = viewer.add_image(data, **options)
        try:
            compare(viewer, image)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_a_layer_that_lies_elsewhere_is_seen_where_the_canvas_shows_it(shown):
    viewer = shown
    image = viewer.add_image(values("uint8", 1), colormap="green")
    other = viewer.add_image(
        np.random.default_rng(2).integers(0, 255, (9, 7), dtype=np.uint8),
        scale=(2.03, 2.57),
        translate=(5.13, 6.31),
        rotate=20,
        blending="additive",
        colormap="red",
    )
    pixels, shot = seen(viewer, image), on_canvas(viewer, image)
    # Where an edge of the coarse pixels runs through a fine pixel's centre either side is right.
    wrong = (np.abs(pixels - shot).max(-1) > 2.5 / 255).mean()
    assert wrong < 0.01
    assert (pixels[..., 0] > 0).any()
    other.visible = False
    assert not (seen(viewer, image)[..., 0] > 0).any()


def test_a_colormap_with_colours_of_its_own_for_the_ends():
    viewer = ViewerModel()
    own = Colormap([[0, 0, 0], [1, 1, 1]], high_color=[1, 0, 0], low_color=[0, 0, 1], name="own")
    image = viewer.add_image(np.array([[0, 50], [128, 255]], np.uint8), colormap=own)
    image.contrast_limits = (50, 255)
    pixels = seen(viewer, image)
    np.testing.assert_allclose(pixels[0], [[0, 0, 1], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(pixels[1, 1], [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(pixels[1, 0], 78 / 205, atol=1 / 255)


def test_nothing_visible_and_nothing_to_see_are_refused():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(*SHAPE), visible=False)
    with pytest.raises(InputError, match="visible"):
        source_of(viewer, image)
    plain = viewer.add_image(np.full(SHAPE, 7, np.uint16), contrast_limits=(0, 9))
    for channels in ("layer", "displayed"):
        with pytest.raises(InputError, match="same value"):
            source_of(viewer, plain, channels).check()


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "int16", "float", "bool"])
def test_this_layer_is_grey_between_its_contrast_limits(kind):
    viewer = ViewerModel()
    data = values(kind, 1)
    low, high = (0, 1) if kind == "bool" else (np.nanmin(data[8:]), np.nanmax(data[8:]))
    image = viewer.add_image(data, contrast_limits=(float(low), float(high)), colormap="red")
    viewer.add_image(values("uint8", 2), colormap="green", blending="additive")
    expected = (data.astype(float) - float(low)) / (float(high) - float(low))
    expected = np.clip(np.nan_to_num(expected, nan=0, posinf=1, neginf=0), 0, 1)
    pixels = seen(viewer, image, "layer")
    pixels = pixels / 255 if pixels.dtype == np.uint8 else pixels
    np.testing.assert_allclose(pixels, expected, atol=1e-4)


@pytest.mark.parametrize("channels", ["layer", "displayed"])
def test_only_the_box_asked_for_is_read_and_never_on_the_main_thread(channels):
    asked = []

    def block(block_info=None):
        place = block_info[None]["array-location"]
        asked.append((place, threading.current_thread() is threading.main_thread()))
        return np.random.default_rng(0).random([stop - start for start, stop in place])

    lazy = da.map_blocks(block, chunks=((1,) * 4, (512,) * 8, (512,) * 8), dtype=float)
    viewer = ViewerModel()
    image = viewer.add_image(lazy, contrast_limits=(0, 1), visible=False)
    image.visible = channels == "displayed"
    viewer.dims.set_point(0, 2)
    asked.clear()
    source = source_of(viewer, image, channels)
    assert not asked
    worker = threading.Thread(target=source.read, args=(0, (600, 1100, 900, 1300)))
    worker.start()
    worker.join(60)
    assert {tuple(place) for place, _ in asked} == {((2, 3), (512, 1024), (1024, 1536))}


def test_a_pyramid_is_composed_at_the_level_asked_for():
    viewer = ViewerModel()
    full = np.random.rand(64, 64).astype(np.float32)
    image = viewer.add_image(
        [full, full[::2, ::2]], multiscale=True, contrast_limits=(0, 1), colormap="red"
    )
    # The other layer's levels tell themselves apart: the one as coarse as asked for is read.
    viewer.add_image(
        [np.full((64, 64), 0.25), np.full((32, 32), 0.5)],
        multiscale=True,
        translate=(2, 2),
        colormap="blue",
        contrast_limits=(0, 1),
        blending="additive",
    )
    source = source_of(viewer, image)
    assert [level.shape for level in source.levels] == [(64, 64), (32, 32)]
    small = source.read(1, (4, 6, 20, 30))
    np.testing.assert_allclose(small[..., 0], full[::2, ::2][4:20, 6:30], atol=1 / 1000)
    np.testing.assert_allclose(small[..., 2], 0.5, atol=1 / 1000)
    np.testing.assert_allclose(source.read(0, (4, 6, 20, 30))[..., 2], 0.25, atol=1 / 1000)


def test_a_renamed_image_is_the_same_and_a_brighter_one_is_not():
    viewer, session = ViewerModel(), Session()
    photo = viewer.add_image(picture(40, 40)[:, :, 0], name="photo")
    cells = viewer.add_labels(label_image(2, 40, 40).astype(np.int32), name="cells")
    session.choose(image=photo, regions=cells)
    before = shown_to_model(prepare(viewer, session))
    photo.name, cells.name = "photo 1", "nuclei"
    assert not shown_to_model(prepare(viewer, session)).differences(before)
    photo.contrast_limits = (0, 100)
    different = shown_to_model(prepare(viewer, session)).differences(before)
    assert [difference.key for difference in different] == ["looks"]
    assert not any(map(changes_pixels, different))


def test_pixels_of_each_channel_that_is_displayed_count_and_hiding_one_does_not():
    viewer, session = ViewerModel(), Session()
    pixels = picture(40, 40)
    red, green, blue = (viewer.add_image(pixels[..., at], blending="additive") for at in range(3))
    cells = viewer.add_labels(label_image(2, 40, 40).astype(np.int32))
    session.choose(image=red, regions=cells)
    session.run.scope = Scope(channels="displayed")
    before = shown_to_model(prepare(viewer, session))
    blue.visible = False
    different = shown_to_model(prepare(viewer, session)).differences(before)
    assert {difference.key for difference in different} == {"pixels", "looks"}
    assert not any(map(changes_pixels, different))
    green.data = green.data[::-1].copy()
    different = shown_to_model(prepare(viewer, session)).differences(before)
    assert any(map(changes_pixels, different))


def test_a_layer_from_a_share_that_is_down_has_no_file(monkeypatch):
    layer = Image(np.zeros((4, 4)), metadata={FILE: "/share/a.tif"})

    def down(_):
        raise OSError(112, "Host is down")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", down)
        file = file_of(layer)
    assert file is None
