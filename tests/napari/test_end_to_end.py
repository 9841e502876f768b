"""The real thing: sample scene, bundled model, a mouse and a keyboard."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_maskinversion._napari.demo import run_demo
from napari_maskinversion._napari.samples import everyday_2
from napari_maskinversion._napari.widget import MaskInversionWidget
from napari_maskinversion.core.errors import InputError


@pytest.mark.filterwarnings("error::FutureWarning")
def test_a_new_user_runs_the_sample_scene(qtbot, make_napari_viewer, messages, monkeypatch):
    def no_network(*args, **kwargs):
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    viewer = make_napari_viewer()
    (image, image_options, _), (labels, labels_options, _) = everyday_2()
    place = {"scale": (0.5, 0.5), "translate": (10, 20), "rotate": 15}
    viewer.add_image(image, **image_options, **place)
    viewer.add_labels(labels, **labels_options, **place)
    widget = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(widget)
    widget.vocabulary.text.selectAll()
    for word in ("car", "palm tree", "apple", "whale", "mushroom"):
        qtbot.keyClicks(widget.vocabulary.text, word)
        qtbot.keyClick(widget.vocabulary.text, Qt.Key.Key_Return)
    widget.model.chunk.setValue(2)
    qtbot.mouseClick(widget.run, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not widget.runner.running, timeout=120_000)
    assert not messages
    frame = widget.results.model.frame
    assert frame["region"].tolist() == [1, 2, 3, 4, 5]
    assert set(frame["suggestion"]) <= {"car", "palm tree", "apple", "whale", "mushroom"}
    qtbot.keyClick(widget.results.table, Qt.Key.Key_Down)
    heat = viewer.layers[f"heatmap: {image_options['name']}"]
    # It covers the image, and what it shows is the selected region's map.
    grid = widget.results.results.regions[1].grid_map
    assert heat.data.shape == grid.shape
    corner = np.array(grid.shape) - 0.5
    np.testing.assert_allclose(
        heat.data_to_world(corner),
        viewer.layers[0].data_to_world(np.array(labels.shape) - 0.5),
        atol=1e-6,
    )
    assert np.array_equal(viewer.layers[0].data, image)
    widget.shut_down()


def test_the_demo_without_a_display_writes_everything(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("virtual displays are for Linux")
    blocked = (
        "import socket, sys\n"
        "def no(*args, **kwargs): raise OSError('no network')\n"
        "socket.socket.connect_ex = no\n"
        "socket.create_connection = socket.getaddrinfo = no\n"
        "from pathlib import Path\n"
        "from napari_maskinversion._napari.demo import run_demo\n"
        "sys.exit(run_demo(Path(sys.argv[1]), screenshot=True))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "WAYLAND_DISPLAY"}
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", blocked, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "suggestion" in done.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "screenshot.png",
        "embeddings.npy",
        "embeddings.json",
        "regions.csv",
        "result.json",
        "heatmaps.tif",
    }
    from skimage.io import imread

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
        run_demo(tmp_path)
