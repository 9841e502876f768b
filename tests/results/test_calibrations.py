"""Limits of flags kept by model: the user's own, and those that come with the demo."""

import pytest

from napari_maskinversion.base.preferences import FILE
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.language.ranking.uncertainty import Calibration
from napari_maskinversion.results.calibrations import (
    calibration_of,
    keep_calibration,
    key_of,
    part_of,
)
from napari_maskinversion.results.settings import RunSettings
from tests.scenes import demo_model

LIMITS = Calibration(
    margin=0.01, overlap=0.3, right=50, wrong=0, right_kept=0.9, wrong_flagged=None, source="a.npz"
)
USUAL = RunSettings()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_MASKINVERSION_CONFIG", str(tmp_path))
    return tmp_path


def test_limits_come_back_for_the_weights_method_and_map_they_were_chosen_with(folder):
    path = keep_calibration("abc", USUAL, LIMITS)
    assert folder in path.parents
    assert calibration_of("abc", USUAL) == LIMITS
    assert calibration_of("abd", USUAL) is None
    assert calibration_of("abc", RunSettings(method="crop")) is None
    assert (
        calibration_of("abc", RunSettings(inversion=InversionConfig(explainer="gradcam"))) is None
    )
    # Steps and alpha move margins too, but people change them a little.
    assert calibration_of("abc", RunSettings(inversion=InversionConfig(steps=9))) == LIMITS


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1, "margin": "x"}', '{"format": 9}'])
def test_a_file_that_cannot_be_read_is_no_calibration(content):
    path = part_of(key_of("abc", USUAL)).former_file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert calibration_of("abc", USUAL) is None


@pytest.mark.parametrize("limits", ['""', "[]", '{"margin": "x"}'])
def test_limits_that_make_no_sense_are_no_calibration(limits):
    FILE.path.write_text(f'{{"format": 1, "limits": {{"{key_of("abc", USUAL)}": {limits}}}}}')
    assert calibration_of("abc", USUAL) is None


def test_own_limits_come_before_those_of_the_package():
    demo = demo_model()
    shipped = calibration_of(demo.fingerprint, USUAL)
    assert shipped is not None, "the weights changed: run benchmarks/flags.py again"
    keep_calibration(demo.fingerprint, USUAL, LIMITS)
    assert calibration_of(demo.fingerprint, USUAL) == LIMITS
