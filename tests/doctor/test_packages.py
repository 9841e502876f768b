"""Versions against the declared bounds, and packages that break others."""

import os

from packaging.requirements import Requirement

from napari_maskinversion.doctor.packages import (
    check_versions,
    conflict_findings,
    pair_findings,
    versions_finding,
)
from napari_maskinversion.doctor.remedies import install

WANTED = [Requirement("torch>=2.4,<3"), Requirement("open_clip_torch>=3.0,<4")]


def test_versions_within_the_bounds_are_named():
    finding = versions_finding(WANTED, {"torch": "2.9.0+cu130", "open_clip_torch": "3.2.0"})
    assert finding.status == "ok"
    assert "torch 2.9.0+cu130, open-clip-torch 3.2.0" in finding.summary


def test_what_is_missing_or_outside_of_its_bounds_is_a_problem():
    absent = versions_finding(WANTED, {"torch": "2.9.0"})
    outside = versions_finding(WANTED, {"torch": "3.0.1", "open_clip_torch": "3.2.0"})
    assert absent.summary == "missing: open_clip_torch"
    assert outside.summary == "outside of the bounds: torch 3.0.1 (needs <3,>=2.4)"
    for finding in (absent, outside):
        assert finding.status == "problem"
        assert finding.remedy == install("--upgrade", "napari-maskinversion")


def test_a_nightly_build_of_torch_counts_by_its_number():
    present = {"torch": "2.10.0.dev20260101+cu130", "open_clip_torch": "3.2.0"}
    assert versions_finding(WANTED, present).status == "ok"


def test_a_torchvision_for_another_torch_is_a_problem():
    pair = [Requirement("torch==2.9.0")]
    present = {"torch": "2.8.0+cpu", "torchvision": "0.24.0"}
    (finding,) = pair_findings(pair, present)
    assert "torchvision 0.24.0 was built for torch ==2.9.0, and torch is 2.8.0" in finding.summary
    assert pair_findings(pair, {**present, "torch": "2.9.0+cpu"}) == []


def test_the_bounds_are_those_of_the_installed_package():
    finding, *_ = check_versions()
    assert {"torch", "numpy", "napari"} <= finding.facts["versions"].keys()


def test_known_conflicts_have_their_remedies(tmp_path):
    assert [one.status for one in conflict_findings({}, {}, "linux", {})] == ["ok"]
    (tmp_path / "numpy-1.26.4.dist-info").mkdir()
    findings = conflict_findings(
        {"torch": ["2.1.0", "2.9.0"]},
        {"opencv-python": "4.12"},
        "linux",
        {
            "KMP_DUPLICATE_LIB_OK": "TRUE",
            "PYTHONPATH": os.pathsep.join(["", str(tmp_path)]),
        },
    )
    assert [one.status for one in findings] == ["problem", "note", "note", "note"]
    remedies = " ".join(one.remedy for one in findings)
    for word in ("PYTHONNOUSERSITE", "opencv-python-headless", "OpenMP", "unset PYTHONPATH"):
        assert word in remedies + findings[2].summary
    assert conflict_findings({}, {"opencv-python": "4.12"}, "win32", {})[0].status == "ok"
