"""The published checkpoints: pinned, and downloaded into the cache folder.

How the file itself arrives is tested in ``tests/base/test_download.py``.
"""

import hashlib

import numpy as np
import pytest

from napari_maskinversion.base.cache_folder import MARKER, cache_folder
from napari_maskinversion.base.errors import ModelError, OfflineError
from napari_maskinversion.base.progress import Tick
from napari_maskinversion.regions.sam.sam_checkpoints import (
    CHECKPOINTS,
    CheckpointSpec,
    fetch_checkpoint,
    get_checkpoint,
)
from tests.listeners import collect

CONTENT = np.random.default_rng(0).bytes(3_000_000)


@pytest.fixture
def spec(hub):
    """A checkpoint that the server on this machine has."""
    hub.files[("meta/sam", "sam_tiny_012345.pth")] = CONTENT
    return CheckpointSpec(
        name="tiny",
        title="SAM tiny",
        url=f"{hub.url}/meta/sam/resolve/main/sam_tiny_012345.pth",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def leftovers():
    folder = cache_folder() / "sam"
    return sorted(p.name for p in folder.glob("*") if not p.name.endswith((".lock", MARKER)))


def test_the_three_published_checkpoints_are_pinned():
    assert list(CHECKPOINTS)[:3] == ["vit_b", "vit_l", "vit_h"]
    for spec in list(CHECKPOINTS.values())[:3]:
        assert spec.url.startswith("https://dl.fbaipublicfiles.com/segment_anything/sam_vit_")
        assert len(bytes.fromhex(spec.sha256)) == 32
        assert spec.state == "to fetch"
    assert CHECKPOINTS["vit_b"].size_text == "375 MB"
    assert get_checkpoint("ViT-H").size_text == "2.6 GB"
    with pytest.raises(ModelError, match="'vit_x'.*vit_b, vit_l, vit_h"):
        get_checkpoint("vit_x")


def test_a_fetch_puts_the_verified_file_into_the_cache_folder(spec, hub):
    reports, path = collect(lambda: fetch_checkpoint(spec))
    assert path.read_bytes() == CONTENT
    assert reports[-1] == Tick("bytes", len(CONTENT), len(CONTENT))
    assert (spec.state, leftovers()) == ("on disk", ["sam_tiny_012345.pth"])
    hub.requests.clear()
    assert fetch_checkpoint(spec) == path
    assert hub.requests == []


def test_offline_mode_names_what_works_without_the_file(spec, hub, monkeypatch):
    monkeypatch.setenv("NAPARI_MASKINVERSION_OFFLINE", "1")
    with pytest.raises(OfflineError, match="offline mode is on; use a checkpoint file") as error:
        fetch_checkpoint(spec)
    assert "\n" not in str(error.value)
    assert hub.requests == []
