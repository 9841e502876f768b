"""A tiny SAM and a picture, shared by the tests."""

import numpy as np
import pytest

from napari_maskinversion.regions.sam.sam_loading import load_segmenter

from .tiny import save_tiny


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A checkpoint file in the published format, of a tiny random SAM."""
    return save_tiny(tmp_path_factory.mktemp("sam") / "sam_tiny.pth")


@pytest.fixture
def segmenter(checkpoint):
    """A SAM that has seen nothing yet."""
    return load_segmenter(checkpoint, "cpu")


@pytest.fixture(scope="session")
def photo():
    """An image (150, 220, 3) with something to see."""
    rows, columns = np.mgrid[:150, :220]
    noise = np.random.default_rng(0).integers(0, 120, (150, 220, 3))
    noise[(rows - 60) ** 2 + (columns - 90) ** 2 < 900] += 130
    return noise.astype(np.uint8)
