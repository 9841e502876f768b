"""Formats whose packages are not installed, and packages that nobody waits for."""

import subprocess
import sys

import pytest

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.results.export.catalogue import FORMATS, check_formats, export
from tests.scenes import write_scene

HEAVY = {"anndata", "bioio", "geopandas", "pyogrio", "spatialdata", "zarr"}


@pytest.fixture
def bare(monkeypatch):
    """Nothing of the extra is installed."""
    monkeypatch.setattr("napari_maskinversion.results.export.bundle.find_spec", lambda _: None)


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("geopackage", "geopandas, pyogrio"),
        ("anndata", "anndata"),
        ("spatialdata", "spatialdata, pkg_resources, anndata, geopandas"),
    ],
)
def test_without_its_packages_a_format_is_refused_before_the_work(
    bare, bundle, tmp_path, call, monkeypatch, name, lacks
):
    line = f"The format {name} needs {lacks}; install the extra: pip install"
    monkeypatch.chdir(write_scene(tmp_path))
    words = ("--labels", "car", "--format", name)
    for command in (
        ("run", "image.png", "masks.png", *words),
        ("batch", "--images", "image.png", "--regions", "masks.png", *words),
        ("export", "none.npz", "--format", name),
    ):
        code, _, err = call(*command)
        assert code == 2
        assert line in " ".join(err.split())
    with pytest.raises(ConfigError, match=line):
        export(bundle, tmp_path / "a", name)
    assert {file.name for file in tmp_path.iterdir()} == {"image.png", "masks.png"}


def test_ome_zarr_needs_no_extra(bare):
    assert check_formats(["ome-zarr", "ome-zarr-0.4", "csv"])


def test_the_list_of_formats_imports_nothing_of_theirs():
    code = (
        "import sys, napari_maskinversion.cli.app, napari_maskinversion.cli.run, "
        "napari_maskinversion.cli.batch, napari_maskinversion.images.opening; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "napari_maskinversion" in loaded
    assert not loaded & HEAVY
    assert {"geopackage", "anndata", "spatialdata"} <= FORMATS.keys()
