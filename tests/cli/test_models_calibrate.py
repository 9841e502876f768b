"""``models calibrate``: limits from reviewed results, and the runs that use them."""

import json

import pandas as pd

from tests.review.test_reporting import reviewed
from tests.scenes import demo_model


def test_a_run_uses_the_limits_that_were_calibrated_and_records_them(files, tmp_path, call, fine):
    print_of = demo_model().fingerprint
    archives = [reviewed(tmp_path, seed, wrong=(3,), fingerprint=print_of) for seed in range(2)]
    code, out, err = call("models", "calibrate", "demo", *archives)
    assert code == 0, err
    assert out.startswith("least margin 0.1")
    assert "Of 22 right answers, 91% are not" in err
    assert "Of 2 wrong answers, 100% are flagged." in err

    run = ["run", files / "image.png", files / "masks.png", "--labels", "car,key", "--steps", 2]
    fine(*run, "--out", files / "out")
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["flags"]["calibration"]["right"] == 22
    assert record["flags"]["limits"]["overlap"] == 0.5
    assert record["flags"]["note"] == ""
    table = pd.read_csv(files / "out" / "regions.csv", keep_default_na=False)
    assert set(table["fit"]) <= {"fits", "does not fit"}
    for (_, row), region in zip(table.iterrows(), record["regions"], strict=True):
        assert region["fits"] == (row["fit"] == "fits") == (row["iou"] >= 0.5)
        assert region["sure"] == (row["word"] == "sure")
        assert (row["status"] == "ok") == (region["sure"] and region["fits"])


def test_a_model_without_calibration_says_that_fits_is_not_flagged(files, fine, monkeypatch):
    monkeypatch.setattr("napari_maskinversion.results.calibrations.shipped_calibrations", dict)
    run = ["run", files / "image.png", files / "masks.png", "--labels", "car,key", "--steps", 2]
    err = fine(*run, "--out", files / "out")
    note = "Whether heatmaps fit is not flagged: the limits are not calibrated for demo."
    assert note in " ".join(err.split())
    record = json.loads((files / "out" / "result.json").read_text())
    assert record["flags"]["calibration"] is None
    assert record["flags"]["note"].startswith(note)
    assert {region["fits"] for region in record["regions"]} == {None}
    assert not pd.read_csv(files / "out" / "regions.csv")["status"].str.contains("fit").any()


def test_a_file_that_is_not_there_is_named(refused, tmp_path):
    assert "There is no file of results" in refused(
        "models", "calibrate", "demo", tmp_path / "none.npz"
    )
