"""The real thing: sample scene, bundled model, a mouse and a keyboard."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from qtpy.QtCore import Qt
from skimage.io import imread

import napari_maskinversion
from napari_maskinversion._napari.panel.panel_state import PanelState, write_state
from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion._napari.plugin import demo
from napari_maskinversion._napari.plugin.commands import everyday_1
from napari_maskinversion.base import preferences
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.sample_scenes import load_scene

FILES = [
    "screenshot.png",
    "embeddings.npy",
    "embeddings.json",
    "regions.csv",
    "result.json",
    "heatmaps.tif",
]


@pytest.mark.filterwarnings("error::FutureWarning")
def test_a_new_user_runs_the_sample_scene(qtbot, make_napari_viewer, messages, no_network):
    viewer = make_napari_viewer()
    (image, image_options, _), (labels, labels_options, _) = everyday_1()
    place = {"scale": (0.5, 0.5), "translate": (10, 20), "rotate": 15}
    viewer.add_image(image, **image_options, **place)
    viewer.add_labels(labels, **labels_options, **place)
    widget = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(widget)
    widget.vocabulary.text.selectAll()
    for word in ("grapes", "airplane", "house", "frog"):
        qtbot.keyClicks(widget.vocabulary.text, word)
        qtbot.keyClick(widget.vocabulary.text, Qt.Key.Key_Return)
    widget.model.form.set_values({"chunk_size": 2})
    widget.start()
    qtbot.waitUntil(lambda: not widget.runner.busy, timeout=600_000)
    assert not messages
    frame = widget.results.model.frame
    assert frame["region"].tolist() == [1, 2, 3, 4]
    truth = load_scene("everyday-1").truth
    right = [truth[region] == label for region, label in frame[["region", "suggestion"]].values]
    assert sum(right) >= 3
    qtbot.keyClick(widget.results.table, Qt.Key.Key_Down)
    heat = viewer.layers[f"heatmap: {image_options['name']}"]
    # It covers the image, and what it shows is the selected region's map.
    region = widget.results.results.regions[1]
    assert heat.data.shape == region.window.input_size
    exported = widget.results.results.window_heatmap(1).values
    np.testing.assert_array_equal(heat.data, exported)
    corner = np.array(heat.data.shape) - 0.5
    np.testing.assert_allclose(
        heat.data_to_world(corner),
        viewer.layers[0].data_to_world(np.array(labels.shape) - 0.5),
        atol=1e-6,
    )
    assert np.array_equal(viewer.layers[0].data, image)
    widget.shut_down()


BLOCKED = """
import os, socket
with open(os.environ["TEST_LOG"], "a") as log:
    print("started", file=log)
real = socket.socket.connect
def connect(self, address):
    if self.family == socket.AF_UNIX:
        return real(self, address)
    with open(os.environ["TEST_LOG"], "a") as log:
        print("asked for", address, file=log)
    raise OSError("no network")
def no(*args, **kwargs):
    return connect(socket.socket(), args)
socket.socket.connect = socket.socket.connect_ex = connect
socket.create_connection = socket.getaddrinfo = no
"""


def test_the_demo_without_a_display_and_network_writes_everything(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("virtual displays are for Linux")
    # Read by every Python that is started, also the one under the virtual display.
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    log = tmp_path / "log"
    displays = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "HF_HUB_OFFLINE")
    environment = {k: v for k, v in os.environ.items() if k not in displays}
    source = Path(napari_maskinversion.__file__).parents[1]
    path = os.pathsep.join([str(tmp_path), str(source)])
    environment |= {"PYTHONPATH": path, "TEST_LOG": str(log)}
    # What the user chose last, here a model that was never fetched, is nothing to it, and stays.
    environment[preferences.VARIABLE] = str(tmp_path / "config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(preferences.VARIABLE, str(tmp_path / "config"))
        write_state(PanelState(settings={"model": "ViT-B-16/openai"}))
    (kept,) = (tmp_path / "config").glob("*.json")
    state = kept.read_text()
    command = ["-W", "error::FutureWarning", "-m", "napari_maskinversion", "demo"]
    done = subprocess.run(
        [sys.executable, *command, "--check", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "running under a virtual one" in done.stdout
    assert "suggestion" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[-6:]] == FILES
    assert kept.read_text() == state
    said = log.read_text().splitlines()
    assert said.count("started") >= 2
    assert set(said) == {"started"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(FILES)
    picture = imread(tmp_path / "out" / "screenshot.png")
    assert picture.shape[0] >= 800
    assert picture.shape[1] >= 1300
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 1000


def test_without_any_display_the_demo_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="apt-get install xvfb"):
        demo.run_demo(tmp_path)


def test_check_fails_where_the_demonstration_left_something_out(tmp_path, call, monkeypatch):
    monkeypatch.setattr(demo, "run_demo", lambda out, screenshot: 0 if screenshot else 9)
    for name in FILES:
        (tmp_path / name).write_text("made")
    status, out, _ = call("demo", "--check", "--out", tmp_path)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == FILES
    for name in FILES:
        (tmp_path / name).write_text("")
        status, _, err = call("demo", "--check", "--out", tmp_path)
        assert status == 2
        assert name in err
        (tmp_path / name).write_text("made")


@pytest.mark.parametrize(
    ("source", "refused"),
    [({"image": {"file": "image.png"}}, "already has "), ({"sample": "everyday-1"}, "")],
)
def test_a_demonstration_replaces_results_of_another_one_only(
    tmp_path, monkeypatch, source, refused
):
    """It ends where a virtual display would start."""
    monkeypatch.setattr(demo, "_has_display", lambda: False)
    monkeypatch.setenv("NAPARI_MASKINVERSION_VIRTUAL_DISPLAY", "1")
    record = {"software": {"napari-maskinversion": "0.2.0"}, "source": source}
    (tmp_path / "result.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=refused or "The virtual display did not start"):
        demo.run_demo(tmp_path)
