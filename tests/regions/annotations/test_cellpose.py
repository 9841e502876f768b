"""Cellpose's ``_seg.npy``: the dictionaries that its window and its functions save."""

import io
import pathlib
import struct
import tracemalloc

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError, MaskShapeError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.regions.annotations.annotation_reading import (
    is_annotations,
    read_annotations,
)
from tests.scenes import label_image

from .shapes import same

MASKS = label_image(5).astype(np.uint16)


def page(masks=MASKS, **more):
    """What Cellpose saves; most of it is of no use here."""
    return {
        "outlines": np.zeros((4, 4), np.uint16),
        "colors": np.zeros((5, 3), np.uint8),
        "masks": masks,
        "chan_choose": [0, 0],
        "ismanual": np.zeros(5, bool),
        "filename": "C:\\data\\cells.tif",
        "flows": [np.zeros((1, 4, 4, 3), np.uint8), [], None, [[]]],
        "manual_changes": [["2024-05-01 10:00:00", "added mask", [1, 2]]],
        "model_path": pathlib.PurePosixPath("/models/cpsam"),
        "normalize_params": {"lowhigh": None, "percentile": [1.0, 99.0], "invert": False},
        "diameter": np.nan,
        "est_diam": np.float64(17.5),
        **more,
    }


@pytest.fixture
def read(tmp_path):
    def read(value, shape=(60, 80), name="cells_seg.npy"):
        np.save(tmp_path / name, value, allow_pickle=True)
        return read_annotations(tmp_path / name, shape, image="cells.tif")

    return read


@pytest.mark.parametrize("order", ["C", "F"])
def test_masks_are_regions_with_their_ids(read, order):
    result = read(page(np.asarray(MASKS, order=order)))
    assert not result.notes
    for item, expected in zip(result.items, Regions.from_labels(MASKS), strict=True):
        same(item.region, expected)
        assert item.source_id == str(expected.id)


def test_the_file_has_the_size_of_its_image(read):
    assert read(page(), shape=None).shape == (60, 80)
    with pytest.raises(MaskShapeError, match="image of 60 x 80 px; this one is 80 x 60 px"):
        read(page(), shape=(80, 60))


def test_masks_of_a_volume_lie_on_planes(read):
    volume = np.stack([np.zeros_like(MASKS), MASKS, np.where(MASKS == 2, MASKS, 0)])
    result = read(page(volume))
    assert {item.position for item in result.items} == {(("z", 1),), (("z", 2),)}
    assert [item.region.id for item in result.items if item.position == (("z", 2),)] == [2]


class Evil:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("ran-foreign-code"),)


@pytest.mark.parametrize(
    "value", [page(flows=Evil()), Evil(), page(restore=np.array([Evil()], object))]
)
def test_no_code_of_a_file_runs(read, tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot be read safely: it holds .*save the masks as PNG"):
        read(value)
    assert not (tmp_path / "ran-foreign-code").exists()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"outlines": MASKS}, "not Cellpose .*an object with outlines"),
        (page(masks=None), "no label image as masks"),
        (page(masks=np.zeros((4, 5, 6, 7), int)), "no label image as masks"),
        (page(masks=MASKS.astype("datetime64[s]")), "could not be read .*not of numbers"),
        (page(masks=np.zeros((60, 80), np.uint16)), "contains no region"),
        (np.array([{}, {}], object), "not a file of Cellpose"),
    ],
)
def test_what_is_no_segmentation_is_refused_by_name(read, value, reason):
    with pytest.raises(InputError, match=f"cells_seg.npy.*{reason}"):
        read(value)


@pytest.mark.parametrize("length", [3, 40, 130, 200, 2000, 9000])
def test_a_file_that_is_cut_off_is_refused_by_name(read, tmp_path, length):
    read(page())
    path = tmp_path / "cells_seg.npy"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match="cells_seg.npy"):
        read_annotations(path, (60, 80))


def test_a_plain_label_image_of_that_name_is_none_of_cellpose(tmp_path):
    np.save(tmp_path / "cells_seg.npy", MASKS)
    assert not is_annotations(tmp_path / "cells_seg.npy")


def pickled(*codes):
    """A file with one object, whose pickle is written by hand."""
    head = io.BytesIO()
    about = {"descr": "|O", "fortran_order": False, "shape": ()}
    np.lib.format.write_array_header_1_0(head, about)
    return head.getvalue() + b"\x80\x05" + b"".join(codes) + b"."


PICKLES = {
    "a byte array of 7 GB": (b"\x96", struct.pack("<Q", 7 << 30), b"x"),
    "a set": (b"\x8f",),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("codes", PICKLES.values(), ids=PICKLES)
def test_what_takes_memory_or_time_without_end_is_refused_before(tmp_path, codes):
    path = tmp_path / "cells_seg.npy"
    path.write_bytes(pickled(*codes))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"cells_seg\.npy cannot be read safely: it"):
            read_annotations(path, (60, 80), image="cells.tif")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
