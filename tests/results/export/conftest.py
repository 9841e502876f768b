"""Fixtures of the export tests."""

import pytest

from napari_maskinversion.results.export.catalogue import FORMATS, write_results

from .bundles import make_bundle


@pytest.fixture(scope="package")
def bundle():
    """Results with labels, units, masks and decisions."""
    return make_bundle()


@pytest.fixture(scope="package")
def folder(bundle, tmp_path_factory):
    """The bundle in every format."""
    out = tmp_path_factory.mktemp("formats")
    written = write_results(bundle, out, tuple(FORMATS))
    assert sorted(out.iterdir()) == sorted(written)
    return out
