"""Label images and archives bring regions of any form back, bit by bit."""

from dataclasses import replace
from unittest.mock import patch

import hypothesis.extra.numpy as arrays
import numpy as np
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.regions.annotations import label_maps
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations, place_mask
from napari_maskinversion.regions.annotations.label_maps import (
    map_files,
    read_names,
    write_label_maps,
)
from napari_maskinversion.regions.region_reading import read_regions
from napari_maskinversion.results.export.annotations import to_annotations
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.export.bundle import CompressedRegion
from napari_maskinversion.results.results import Results
from tests.regions.annotations.shapes import names, same

PLANE = (35, 20)  # two tiles and a piece of 16 pixels down, one and a piece across
quick = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def label_images(draw):
    """Holes, many parts, regions that touch, anywhere on the plane; no pixel of two regions."""
    small = draw(arrays.arrays(np.uint8, (9, 8), elements=st.integers(0, 3)))
    labels = np.zeros(PLANE, int)
    y, x = draw(st.integers(0, PLANE[0] - 9)), draw(st.integers(0, PLANE[1] - 8))
    labels[y : y + 9, x : x + 8] = small
    labels[draw(st.integers(0, PLANE[0] - 1)), draw(st.integers(0, PLANE[1] - 1))] = 4
    return labels


@quick
@given(labels=label_images(), scale=st.sampled_from([1, 90, 60_000]), data=st.data())
def test_label_images_come_back_with_their_names(tmp_path, labels, scale, data):
    regions = Regions.from_labels(labels * scale)
    items = tuple(
        Annotation(region=region, label=data.draw(names), score=data.draw(st.floats(-1, 1)))
        for region in regions
    )
    path = tmp_path / "labels.tif"
    with patch.object(label_maps, "TILE", 16):
        write_label_maps(Annotations(shape=PLANE, items=items, image="bild ä.png"), path)
    np.testing.assert_array_equal(tifffile.imread(path), labels * scale)
    listed = read_names(path)
    kinds = tifffile.imread(map_files(path)[1])
    for one, item in zip(read_regions(path, PLANE), items, strict=True):
        same(one, item.region)
        assert listed.regions[(), one.id] == (item.label, item.score)
        (kind,) = np.unique(kinds[labels * scale == one.id])
        assert (kind > 0) == bool(item.label)


@quick
@given(masks=st.lists(arrays.arrays(bool, (7, 9)), min_size=1, max_size=4), order=st.randoms())
def test_where_regions_overlap_the_smaller_one_lies_above(tmp_path, masks, order):
    regions = [place_mask(n, n, 3 * n, mask, PLANE) for n, mask in enumerate(masks, 1)]
    items = [Annotation(region=region) for region in regions if region is not None]
    if not items:
        return
    expected = np.zeros(PLANE, int)
    for item in sorted(items, key=lambda item: (-item.region.area, item.region.bbox)):
        y0, x0, y1, x1 = item.region.bbox
        expected[y0:y1, x0:x1][item.region.mask] = item.region.id
    order.shuffle(items)
    with patch.object(label_maps, "TILE", 16):
        write_label_maps(Annotations(shape=PLANE, items=tuple(items)), tmp_path / "l.tif")
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "l.tif"), expected)


@st.composite
def drawn(draw):
    """Regions of any pixels or coverage, on planes, in any order."""
    regions = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        y, x = draw(st.integers(0, 50)), draw(st.integers(0, 60))
        mask = draw(arrays.arrays(bool, (8, 11)))
        mask[draw(st.integers(0, 7)), draw(st.integers(0, 10))] = True
        region = place_mask(number * draw(st.sampled_from([1, 70_000])), y, x, mask, (60, 80))
        if draw(st.booleans()):
            shares = draw(
                arrays.arrays(np.float32, region.mask.shape, elements=st.floats(0, 1, width=32))
            )
            region = replace(region, mask=np.maximum(shares, region.mask).astype(np.float32))
        members = draw(st.sampled_from([(), (number, 99)]))
        at = (("t", draw(st.integers(0, 9))), ("z", draw(st.integers(0, 9))))
        regions.append((at, replace(region, members=members), draw(names)))
    return regions


@quick
@given(drawn())
def test_archives_come_back_bit_by_bit(bundle, tmp_path, drawn_regions):
    first = bundle.results.regions[0]
    regions = tuple(
        replace(
            first,
            id=region.id,
            bbox=region.bbox,
            area=region.area,
            position=at,
            index=number,
            members=region.members,
            raw_embedding=first.raw_embedding * (number + 1),
        )
        for number, (at, region, _) in enumerate(drawn_regions)
    )
    info = replace(bundle.results.info, axes=("t", "z"))
    original = replace(
        bundle,
        results=Results(info, regions),
        masks={(at, region.id): CompressedRegion.of(region) for at, region, _ in drawn_regions},
        columns={
            "decision": ["accepted"] * len(drawn_regions),
            "accepted_label": [label for _, _, label in drawn_regions],
        },
        records=(),
    )
    save_archive(original, tmp_path / "r.npz")
    again = open_archive(tmp_path / "r.npz")
    assert again.results.info == info
    for one, (at, region, label), item in zip(
        again.results.regions, drawn_regions, to_annotations(again).items, strict=True
    ):
        assert (one.id, one.bbox, one.position) == (region.id, region.bbox, at)
        assert one.members == region.members
        kept: Region = again.masks[at, region.id].unpack()
        np.testing.assert_array_equal(kept.mask, region.mask)
        assert (kept.mask.dtype, kept.members) == (region.mask.dtype, region.members)
        assert (item.label, item.position) == (label, at)
    np.testing.assert_array_equal(again.results.raw_embeddings, original.results.raw_embeddings)
