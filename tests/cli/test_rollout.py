"""``rollout``, as a user meets it."""

import numpy as np
import pytest
import skimage.io
import tifffile

from napari_maskinversion import MaskInverter
from napari_maskinversion.cli import rollout as cli_rollout
from napari_maskinversion.engine.explain.interpolation import heatmap
from tests.scenes import demo_model, picture

from .conftest import ok, refusal


@pytest.fixture
def rollout(call, monkeypatch, tmp_path):
    monkeypatch.setattr(cli_rollout, "load", lambda *_: demo_model())
    skimage.io.imsave(tmp_path / "image.png", picture(), check_contrast=False)

    def command(*options):
        return call("rollout", tmp_path / "image.png", *options)

    return command


def test_rollout_is_written_as_numbers_and_as_a_picture(rollout, tmp_path):
    assert "rollout of 4 layers" in ok(rollout("--out", tmp_path / "new" / "flow.tif"))
    inverter = MaskInverter(demo_model())
    inverter.set_image(picture())
    expected = heatmap(inverter.rollout(), inverter.input_size, (60, 80))
    saved = tifffile.imread(tmp_path / "new" / "flow.tif")
    np.testing.assert_allclose(saved, expected, atol=1e-6)
    assert 0 <= saved.min() < 0.05 < 0.95 < saved.max() <= 1
    assert rollout("--out", tmp_path / "flow.png")[0] == 0
    shown = skimage.io.imread(tmp_path / "flow.png")
    assert shown.shape == (60, 80, 3)
    # Red where much flows: as much as the map says beyond half of the image's grey.
    red = shown[..., 0].astype(float) - shown[..., 2]
    assert np.corrcoef(red.ravel(), expected.ravel())[0, 1] > 0.8


def test_a_large_image_is_shown_smaller(rollout, tmp_path):
    large = np.kron(picture(), np.ones((40, 40, 1), np.uint8))  # 2400 x 3200
    skimage.io.imsave(tmp_path / "image.png", large, check_contrast=False)
    assert rollout("--out", tmp_path / "flow.tif")[0] == 0
    assert tifffile.imread(tmp_path / "flow.tif").shape == (800, 1067)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--out", "flow.txt"), "PNG or TIFF"),
        (("--out", "image.png", "--overwrite"), "which is an input"),
        (("--out", "there.png"), "--overwrite"),
        (("--plane", "z=3"), "z"),
    ],
)
def test_what_cannot_be_shown_is_refused(rollout, tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.png").write_text("mine")
    err = refusal(rollout(*options))
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_an_inversion_with_rollout_says_where_it_is_shown(refused, tmp_path):
    masks = tmp_path / "masks.png"
    more = ("--labels", "a,b", "--explainer", "rollout")
    assert "napari-maskinversion rollout" in refused("run", tmp_path / "i.png", masks, *more)
