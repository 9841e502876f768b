"""Python, the command line, a batch and the panel give the same embeddings and the same table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from skimage.io import imread

from napari_maskinversion import label_regions, read_image, read_regions
from napari_maskinversion.results.export.archive import open_archive

from .scenes import write_scene

WORDS = ("car", "key", "frog")
# Measured, or where it was computed: other from run to run.
PLACE = {"image", "image_path", "regions_path", "seconds"}


def table(results):
    frame = results.to_frame()
    return frame.drop(columns=[name for name in frame if name in PLACE])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    write_scene(tmp_path, 5)
    (tmp_path / "image.png").rename(tmp_path / "images" / "photo.png")
    (tmp_path / "masks.png").rename(tmp_path / "masks" / "photo.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_python(folder):
    # A panel's test before may have raised it for this thread alone; last bits depend on it
    torch.set_num_threads(1)
    image = read_image("images/photo.png")
    masks = read_regions("masks/photo.png", image.shape[:2])
    return label_regions(image, masks, WORDS, device="cpu")


def same(results, reference):
    assert results.regions
    np.testing.assert_array_equal(results.embeddings, reference.embeddings)
    pd.testing.assert_frame_equal(table(results), table(reference), check_exact=True)


OPTIONS = ("--labels", ",".join(WORDS), "--device", "cpu")


def test_the_command_run_gives_what_python_gives(in_python, call):
    files = ("images/photo.png", "masks/photo.png")
    code, _, err = call("run", *files, *OPTIONS, "--out", "out", "--format", "npz")
    assert code == 0, err
    same(open_archive(Path("out/results.npz")).results, in_python)


def test_a_batch_gives_what_python_gives(in_python, call):
    code, _, err = call(
        "batch", "--images", "images", "--regions", "masks", *OPTIONS, "--out", "out"
    )
    assert code == 0, err
    (archive,) = Path("out").rglob("*.npz")
    same(open_archive(archive).results, in_python)


def test_the_panel_gives_what_python_gives(in_python, qtbot, make_napari_viewer):
    from napari_maskinversion._napari.panel.widget import MaskInversionWidget

    viewer = make_napari_viewer()
    viewer.add_image(imread("images/photo.png"), name="photo")
    viewer.add_labels(imread("masks/photo.png"), name="cells")
    panel = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(panel)
    panel.vocabulary.text.setPlainText("\n".join(WORDS))
    panel.session.run.change_settings({"device": "cpu"})
    panel.start()
    qtbot.waitUntil(lambda: not panel.runner.busy, timeout=60_000)
    same(panel.session.run.results, in_python)
    panel.shut_down()
