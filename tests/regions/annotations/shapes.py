"""Regions of any form for the tests of file formats."""

from unicodedata import normalize

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import strategies as st

from napari_maskinversion.base.regions import Region
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations, place_mask

PLANE = (11, 13)
NAMES = ("Äpfel, rote", "車", "", 'a "key"')
# Other signs are replaced or left out when they are read, and accents become part of letters.
SHOWN = st.characters(exclude_categories=("Cc", "Cf", "Cs"))
names = st.sampled_from(NAMES) | st.text(SHOWN, max_size=5).map(
    lambda text: normalize("NFC", text).strip()
)


@st.composite
def regions(draw, shape=PLANE, region_id=1):
    """Any pixels: holes, several parts, parts that touch at corners, some at the plane's edges."""
    mask = draw(arrays.arrays(bool, shape))
    mask[draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1))] = True
    return place_mask(region_id, 0, 0, mask, shape)


@st.composite
def annotations(draw):
    count = draw(st.integers(1, 3))
    items = tuple(
        Annotation(
            region=draw(regions(region_id=number)),
            label=draw(names),
            score=draw(st.none() | st.floats(-1, 1)),
            columns={"iou": draw(st.floats(0, 1)), "status": "ok"},
        )
        for number in range(1, count + 1)
    )
    return Annotations(shape=PLANE, items=items, image="bild ä.png", colors={"車": "#ff8000"})


def full(region, shape=PLANE):
    mask = np.zeros(shape, bool)
    y0, x0, y1, x1 = region.bbox
    mask[y0:y1, x0:x1] = region.mask
    return mask


def drawn(*rows, region_id=1):
    """A region drawn with letters: anything but a dot belongs to it."""
    mask = np.array([[letter != "." for letter in row] for row in rows])
    return place_mask(region_id, 0, 0, mask, mask.shape)


def same(one: Region, other: Region):
    assert (one.id, one.bbox) == (other.id, other.bbox)
    np.testing.assert_array_equal(one.mask, other.mask)


RING = drawn(
    ".......",
    ".#####.",
    ".#...#.",
    ".#.#.#.",
    ".#...#.",
    ".#####.",
    "......#",
)
