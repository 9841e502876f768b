"""The extras: what is installed, what the others bring, and the traps of their packages."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from napari_maskinversion.doctor.declared import Declared, of_tree, source_findings
from napari_maskinversion.doctor.extras import EXTRAS, check_extras, extras_findings
from napari_maskinversion.doctor.packages import check_versions
from napari_maskinversion.doctor.remedies import extra, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WANTED = {
    "batch": (Requirement("dask>=2024.8"),),
    "spatial": (Requirement("spatialdata>=0.7"), Requirement("setuptools<81")),
}


def test_every_extra_for_users_is_known():
    others = {"all", "pyside6", "test", "docs", "dev"}
    assert EXTRAS.keys() == PROJECT["optional-dependencies"].keys() - others
    (finding, *_) = check_extras()
    assert {*finding.facts["installed"], *finding.facts["absent"]} == EXTRAS.keys()


def test_what_is_not_installed_is_told_with_what_it_brings_and_how():
    (finding,) = extras_findings(WANTED, {"dask": "2025.1", "setuptools": "80.9"})
    assert finding.status == "ok"
    assert finding.summary == (
        "installed: batch; not installed: spatial (GeoPackage, AnnData and SpatialData)"
    )
    assert finding.remedy.splitlines()[-1] == extra("spatial")


def test_a_setuptools_without_pkg_resources_is_named_where_spatialdata_needs_it():
    present = {"dask": "2025.1", "setuptools": "83.0", "spatialdata": "0.7.2"}
    _, trap = extras_findings(WANTED, present)
    assert trap.status == "note"
    assert "setuptools 83.0" in trap.summary
    assert "pkg_resources" in trap.summary
    assert trap.remedy == install("setuptools<81")


def declared(version, *needed):
    return Declared(version, tuple(map(Requirement, needed)), {})


def test_metadata_of_another_day_than_the_source_are_noted():
    tree = declared("0.2.0.dev0", "open_clip_torch>=3,<4", "shapely>=2")
    # uv writes names and bounds in its own way.
    same = declared("0.2.0.dev0", "shapely>=2", "open-clip-torch<4,>=3")
    assert source_findings(tree, same) == []
    assert source_findings(None, declared("0.1.0", "shapely>=2")) == []
    (finding,) = source_findings(tree, declared("0.1.0", "open-clip-torch<4,>=3", "shapely>=1"))
    assert finding.status == "note"
    assert "the source is 0.2.0.dev0, the installed metadata are 0.1.0" in finding.summary
    assert "only the source needs shapely>=2; only the metadata need shapely>=1" in finding.summary
    assert "-e" in finding.remedy


def test_the_source_s_bounds_count_where_it_is_used_in_place():
    tree = of_tree(ROOT)
    assert tree.version == PROJECT["version"]
    finding, *_ = check_versions()
    assert len(finding.facts["versions"]) == len(PROJECT["dependencies"])
    assert of_tree(ROOT / "docs") is None
