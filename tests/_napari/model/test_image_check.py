"""A photograph given to the demo model: a warning in the head, and a model that knows it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import skimage
from PIL import Image
from qtpy.QtCore import Qt

from napari_maskinversion.app.work.preload import warm_up
from napari_maskinversion.engine.models.registry import get_spec, model_state
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.results.settings import RunSettings

LEFT = Qt.MouseButton.LeftButton
CLIP = "ViT-B-16/openai"
CONTENT = np.random.default_rng(0).bytes(4_000_000)


@pytest.fixture
def photograph(widget, qtbot):
    """The panel, with a photograph added that the demo model has looked at."""
    warm_up()  # what the panel does in the background once it is shown
    with Image.open(Path(skimage.__file__).parent / "data" / "astronaut.png") as opened:
        widget._viewer.add_image(np.asarray(opened.convert("RGB")), name="astronaut")
    qtbot.waitUntil(lambda: widget.session.run.image_unknown)
    return widget


def test_an_image_that_is_open_before_the_panel_is_looked_at(viewer, dock, qtbot):
    warm_up()  # by the panel of another window
    with Image.open(Path(skimage.__file__).parent / "data" / "astronaut.png") as opened:
        viewer.add_image(np.asarray(opened.convert("RGB")), name="astronaut")
    panel = dock()
    qtbot.waitUntil(lambda: panel.session.run.image_unknown)


def test_a_fetch_by_the_warning_can_be_cancelled_resumes_and_ends_with_the_model_chosen(
    photograph, hub, qtbot
):
    head, foot = photograph.controller.part, photograph.foot
    hub.files[get_spec(CLIP).source, "open_clip_model.safetensors"] = CONTENT
    hub.pause = 0.05
    photograph.session.run.change_settings({})  # the network is there since a moment ago
    head.show_model()
    assert "does not recognise this image" in head.model.text()
    assert "background" in head.chip.styleSheet()
    assert head.photographs.text() == "Fetch ViT-B/16 (599 MB)"
    qtbot.mouseClick(head.photographs, LEFT)
    assert head.photographs.isHidden()
    photograph.segment.fetching.start("vit_b")  # one download at a time
    assert f"Wait until {CLIP} is here" in foot.status.text()
    photograph.session.say("")
    begun = "Fetching ViT-B-16/openai: 2 of 4 MB"
    qtbot.waitUntil(lambda: foot.status.text() == begun)
    qtbot.mouseClick(foot.cancel, LEFT)
    qtbot.waitUntil(lambda: not photograph.download.job.busy)
    assert photograph.session.run.settings.model == "demo"
    assert model_state(get_spec(CLIP)) == "to fetch"

    hub.pause = 0
    qtbot.mouseClick(head.photographs, LEFT)
    qtbot.waitUntil(lambda: photograph.session.run.settings.model == CLIP)
    _, _, part = hub.gets()[-1]
    assert int(part.removeprefix("bytes=").rstrip("-")) > 0  # resumed
    assert model_state(get_spec(CLIP)) == "on disk"
    assert CLIP in head.model.text()
    assert head.photographs.isHidden()
    assert head.chip.styleSheet() == ""
    photograph.model.choose("demo")
    assert head.photographs.text() == "Use ViT-B/16"


def test_offline_a_button_says_how_to_bring_a_file(
    photograph, monkeypatch, own_cache_folder, qtbot
):
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    head = photograph.controller.part
    head.show_model()
    assert head.photographs.text() == "Bring ViT-B/16 (599 MB)..."
    assert "models fetch" not in head.model.text()  # the head never scrolls
    qtbot.mouseClick(head.photographs, LEFT)
    said = photograph.foot.status
    how = "models fetch ViT-B-16/openai' on a machine with a network"
    qtbot.waitUntil(lambda: how in said.text())
    assert str(own_cache_folder) in said.text()


def test_a_sample_takes_the_warning_away(photograph, qtbot):
    photograph._viewer.add_image(load_scene("everyday-1").image, name="sample")
    qtbot.waitUntil(lambda: photograph.session.run.image.name == "sample")
    check = photograph.image_check
    qtbot.waitUntil(lambda: check.checked.image is photograph.session.run.image)
    assert not photograph.session.run.image_unknown
    assert "but no photographs" in photograph.controller.part.model.text()


def test_new_pixels_in_the_same_layer_are_looked_at(photograph, qtbot):
    layer, check = photograph.session.run.image, photograph.image_check
    astronaut = layer.data
    layer.data = load_scene("everyday-1").image
    assert not photograph.session.run.image_unknown
    qtbot.waitUntil(lambda: check.checked is not None)
    assert not photograph.session.run.image_unknown
    layer.data = astronaut
    qtbot.waitUntil(lambda: photograph.session.run.image_unknown)


def test_a_fetch_that_fails_says_so_in_the_dialog(widget, monkeypatch, qtbot):
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    page = widget.model
    page.choose(CLIP)
    widget.controller.settings.bring("Model")
    qtbot.waitUntil(lambda: page.fetching.button.height() > 0)  # laid out
    qtbot.mouseClick(page.fetching.button, LEFT)
    qtbot.waitUntil(lambda: page.fetching.problem.isVisible())
    assert CLIP in page.fetching.problem.text()
    page.choose("demo")
    assert not page.fetching.problem.isVisible()


def test_the_line_stays_amber_while_suggestions_of_the_demo_are_shown(ran):
    head, record = ran.controller.part, ran.session.run.record
    info = replace(record.results.info, settings=RunSettings())
    ran.session.show(record.changed(results=replace(record.results, info=info)))
    ran.model.choose(CLIP)
    assert head.model.text().endswith("The suggestions are still from the demo model.")
    assert "background: #" in head.chip.styleSheet()
    ran.session.forget_results()
    assert "demo" not in head.model.text()


def test_a_picture_that_is_nearly_black_says_so_until_it_is_stretched(widget, qtbot):
    warm_up()
    dark = np.full((48, 64), 300, np.uint16)
    dark[0, 0], dark[20:30] = 0, 400
    layer = widget._viewer.add_image(dark, name="dark", contrast_limits=(0, 65535))
    said = widget.controller.part.seen
    qtbot.waitUntil(lambda: "nearly black as the model sees it" in said.text())
    layer.contrast_limits = (0, 400)
    assert said.text() == ""
    qtbot.waitUntil(lambda: widget.image_check.checked is not None)
    assert said.text() == ""


def test_a_dark_plane_says_so_while_it_is_shown(widget, qtbot):
    warm_up()
    stack = np.zeros((2, 48, 64), np.uint16)
    stack[:, 20:30], stack[1, 30:] = 400, 60_000
    said, viewer = widget.controller.part.seen, widget._viewer
    viewer.add_image(stack, name="stack", contrast_limits=(0, 65535))
    for plane, dark in ((0, True), (1, False), (0, True)):
        viewer.dims.set_point(0, plane)
        qtbot.waitUntil(lambda dark=dark: ("nearly black" in said.text()) == dark)
