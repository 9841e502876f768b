"""Painted pictures that look like a satellite image and a blood smear: two samples, and training.

Nothing is copied from a photograph. Colours and sizes follow training images of the real sets, and
were chosen before a model was trained on these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import draw

from napari_maskinversion.demo_model.domains import NAMES, Picture

Image = NDArray[np.float64]  # (H, W, 3), 0..1
Area = NDArray[np.bool_]  # (H, W)

SMEAR: Final = (0.84, 0.85, 0.84)  # the empty glass
RED: Final = (0.76, 0.55, 0.52)
VIOLET: Final = (0.45, 0.36, 0.72)
PLASMA: Final = (0.82, 0.74, 0.80)
PLATELET: Final = (0.52, 0.45, 0.70)
SAND: Final = (0.74, 0.74, 0.74)
ASPHALT: Final = (0.37, 0.33, 0.31)
LEAVES: Final = (0.27, 0.29, 0.19)
WATER: Final = (0.04, 0.05, 0.05)
COUNT: Final = 12  # pictures of each kind for training
SIZES: Final = (384, 704)  # pixels of their sides; the layout of the land is stretched
FIRST_SEED: Final = 10_000  # of theirs; those of the sample scenes are below 10
ROOFS: Final = ((0.93, 0.91, 0.88), (0.86, 0.88, 0.95), (0.90, 0.62, 0.42), (0.80, 0.83, 0.72))


def _noise(rng: np.random.Generator, size: tuple[int, int], scale: float) -> Image:
    """Return smooth noise of unit standard deviation, (H, W, 1)."""
    field = ndimage.gaussian_filter(rng.standard_normal(size), scale)
    return np.expand_dims(field / field.std(), -1)


def _lay(image: Image, area: Area, colour: Image | tuple[float, ...], soft: float = 0.7) -> Image:
    """Paint an area with a soft edge."""
    if not area.any():
        return image
    reach = 4 * soft + 2  # farther away the filter's weights are 0
    around = tuple(
        slice(max(0, int(edges.start - reach)), int(edges.stop + reach))
        for edges in ndimage.find_objects(area.astype(np.uint8))[0]
    )
    cover: Image = ndimage.gaussian_filter(area[around].astype(float), soft)[..., None]
    painted = image.copy()
    colours = np.broadcast_to(colour, image.shape)[around]
    painted[around] = image[around] * (1 - cover) + colours * cover
    return painted


def _disc(
    size: tuple[int, int], centre: tuple[float, float], radii: tuple[float, float], turn: float = 0
) -> Area:
    area = np.zeros(size, bool)
    area[draw.ellipse(*centre, *radii, shape=size, rotation=turn)] = True
    return area


def paint_aerial(seed: int, size: tuple[int, int] = (512, 640)) -> tuple[Image, NDArray[np.uint8]]:
    """Paint land with a road, a lake, a grove, a row of halls and bare ground, from above.

    Returns the image, (H, W, 3) float in 0..1, and its regions, (H, W) uint8: 1 road, 2 water,
    3 vegetation, 4 and 5 buildings, 6 unpaved land, 0 the rest.
    """
    rng = np.random.default_rng(seed)
    high, wide = size
    yy, xx = np.mgrid[:high, :wide]
    regions = np.zeros(size, np.uint8)
    image = np.asarray(SAND) + 0.05 * _noise(rng, size, 24) + 0.03 * _noise(rng, size, 3)
    image += 0.03 * _noise(rng, size, 1)

    # A dual carriageway with a light median and trees.
    line = 0.47 * high + 0.11 * high * np.sin(1.6 * xx / wide + 0.4)
    road = np.abs(yy - line) < 0.045 * high
    for offset in (-0.075, 0.085):
        for x in rng.uniform(0, wide, 26):
            y = line[0, int(x)] + offset * high + rng.uniform(-4, 4)
            image = _lay(image, _disc(size, (y, x), (rng.uniform(3, 6),) * 2), LEAVES, 1)
    image = _lay(image, road, np.asarray(ASPHALT) + 0.03 * _noise(rng, size, 1.5))
    image = _lay(image, np.abs(yy - line) < 1.2, (0.62, 0.60, 0.56), 0.5)
    for x in rng.uniform(0.03, 0.97, 14) * wide:
        y = line[0, int(x)] + rng.choice((-0.022, 0.022)) * high
        car = _disc(size, (y, x), (1.6, 3.4))
        image = _lay(image, car, rng.choice([0.15, 0.85, 0.95]) * np.ones(3), 0.5)
    regions[road] = 1

    # A lake, its shore darker than the sand.
    wobble = _noise(rng, size, 30)[..., 0]
    reach = np.hypot((yy - 0.80 * high) / (0.17 * high), (xx - 0.22 * wide) / (0.18 * wide))
    lake = reach + 0.10 * wobble < 1
    shore = ndimage.binary_dilation(lake, iterations=7)
    image = _lay(image, shore, np.asarray((0.38, 0.36, 0.28)) + 0.05 * _noise(rng, size, 2), 2)
    image = _lay(image, lake, np.asarray(WATER) + 0.006 * _noise(rng, size, 2), 1)
    regions[lake] = 2

    # A grove: many crowns, each with a lit and a dark side.
    reach = np.hypot((yy - 0.20 * high) / (0.15 * high), (xx - 0.19 * wide) / (0.16 * wide))
    grove = reach + 0.12 * _noise(rng, size, 22)[..., 0] < 1
    ground = np.asarray((0.33, 0.33, 0.23)) + 0.04 * _noise(rng, size, 2)
    image = _lay(image, grove, ground, 1.5)
    for y, x in rng.permutation(np.argwhere(grove))[:420]:
        r = rng.uniform(2.5, 6)
        shade = rng.uniform(0.75, 1.15)
        image = _lay(image, _disc(size, (y, x), (r, r)), shade * np.asarray(LEAVES), 0.8)
        bright = _disc(size, (y - 0.3 * r, x - 0.3 * r), (0.5 * r, 0.5 * r))
        image = _lay(image, bright, 1.35 * shade * np.asarray(LEAVES), 0.8)
    regions[grove] = 3

    # Two rows of halls: ribbed roofs, shadows to the lower right, asphalt between them.
    for number, (y0, x0) in enumerate(((0.07, 0.47), (0.71, 0.52)), 4):
        area = np.zeros(size, bool)
        for hall in range(4):
            y, x = int(y0 * high), int((x0 + 0.112 * hall) * wide)
            h, w = int(0.22 * high), int(0.092 * wide)
            shadow = np.zeros(size, bool)
            shadow[y + 6 : y + h + 6, x + 6 : x + w + 6] = True
            image = _lay(image, shadow, (0.20, 0.19, 0.18))
            roof = np.zeros(size, bool)
            roof[y : y + h, x : x + w] = True
            ribs = 0.045 * (((yy - y) // 3) % 2) + 0.06 * ((xx - x) > w / 2)
            colour = np.asarray(ROOFS[(hall + number) % len(ROOFS)]) - ribs[..., None]
            image = _lay(image, roof, colour + 0.02 * _noise(rng, size, 1))
            area |= roof
        regions[area] = number

    # Bare ground below the upper halls; only tracks distinguish it.
    bare = np.zeros(size, bool)
    bare[int(0.315 * high) : int(0.40 * high), int(0.38 * wide) : int(0.97 * wide)] = True
    for y in (0.352, 0.368):
        track = np.abs(yy - y * high - 4 * np.sin(xx / 50)) < 1
        image = _lay(image, track & bare, np.asarray(SAND) - 0.12, 1)
    regions[bare] = 6
    return np.clip(image, 0, 1), regions


def paint_smear(seed: int, size: tuple[int, int] = (480, 640)) -> tuple[Image, NDArray[np.uint8]]:
    """Paint a stained blood smear: red cells, two white cells, a few platelets.

    Returns the image, (H, W, 3) float in 0..1, and its regions, (H, W) uint8: 1 and 2 white cells,
    3 to 6 red cells that lie apart, 7 and 8 platelets, 0 the rest, other cells included.
    """
    smear = _Smear(seed, size)
    for number in (1, 2):
        smear.add_white_cell(number)
    for number in (7, 8):
        smear.add_platelet(number)
    for number in range(3, 43):
        if not smear.add_red_cell(number):
            break
    image = ndimage.gaussian_filter(smear.image, (0.8, 0.8, 0))
    noise = smear.rng.standard_normal((*size, 3))
    return np.clip(image + 0.008 * noise, 0, 1), smear.regions


class _Smear:
    """A blood smear and the cells painted so far."""

    def __init__(self, seed: int, size: tuple[int, int]) -> None:
        self.rng, self.size = np.random.default_rng(seed), size
        self.regions = np.zeros(size, np.uint8)
        self.image = np.asarray(SMEAR) + 0.01 * self._noise(40) + 0.008 * self._noise(1)
        self._taken = np.zeros(size, bool)

    def add_white_cell(self, number: int) -> None:
        """Paint a cell with a nucleus of four lobes."""
        rng, place = self.rng, self._free(66, 6)
        assert place is not None
        body = _disc(self.size, place, (58 + rng.uniform(-4, 4), 62), rng.uniform(0, 3))
        self._paint(body, np.asarray(PLASMA) + 0.02 * self._noise(2), 2.5)
        lobes = np.zeros(self.size, bool)
        start = rng.uniform(0, 6)
        for lobe in range(4):
            angle = start + 1.25 * lobe
            at = (place[0] + 25 * np.sin(angle), place[1] + 25 * np.cos(angle))
            lobes |= _disc(self.size, at, (19, 23), angle)
        stain = np.asarray(VIOLET) + 0.05 * self._noise(4) - 0.02 * self._noise(1.5)
        self._paint(lobes, stain, 1.5)
        self._take(body, number)

    def add_platelet(self, number: int) -> None:
        """Paint a small cell with a ragged edge."""
        rng, place = self.rng, self._free(17, 20)
        assert place is not None
        radii = (rng.uniform(12, 15), rng.uniform(13, 17))
        area = _disc(self.size, place, radii, rng.uniform(0, 3))
        area &= ndimage.binary_fill_holes(self._noise(3)[..., 0] > -1.6)
        self._paint(area, np.asarray(PLATELET) + 0.07 * self._noise(1.5), 1.8)
        self._take(area, number)

    def add_red_cell(self, number: int) -> bool:
        """Paint a red cell, paler where it overlaps less; return whether there was room."""
        rng, taken = self.rng, self._taken
        radius = rng.uniform(33, 42)
        place = self._free(radius, 4 if number < 7 else -9)
        if place is None:
            return False
        turn = rng.uniform(0, 3)
        radii = (radius, radius * rng.uniform(0.84, 1.0))
        body = _disc(self.size, place, radii, turn) & ~(taken & (self.regions > 0))
        colour = np.asarray(RED) + rng.uniform(-0.03, 0.03) + 0.012 * self._noise(6)
        self._paint(body, np.where(taken[..., None], 0.94 * colour, colour), 1.2)
        inner = _disc(self.size, place, (radii[0] - 4, radii[1] - 4), turn)
        self._paint(body & ~inner, np.asarray(RED) - 0.06, 1.5)
        pale = _disc(self.size, place, (0.36 * radii[0], 0.36 * radii[1]), turn) & body
        self._paint(pale, np.asarray(RED) + rng.uniform(0.05, 0.16), 5)
        self._take(body, number if number < 7 else 0)
        return True

    def _free(self, radius: float, gap: float) -> tuple[float, float] | None:
        """Return a random place with a distance from existing cells."""
        clear = ndimage.distance_transform_edt(~self._taken) > radius + gap
        edge = int(radius * 1.1)
        clear[:edge] = clear[-edge:] = False
        clear[:, :edge] = clear[:, -edge:] = False
        places = np.argwhere(clear)
        if not len(places):
            return None
        y, x = places[self.rng.integers(len(places))]
        return float(y), float(x)

    def _noise(self, scale: float) -> Image:
        return _noise(self.rng, self.size, scale)

    def _paint(self, area: Area, colour: Image, soft: float) -> None:
        self.image = _lay(self.image, area, colour, soft)

    def _take(self, area: Area, number: int) -> None:
        if number:
            self.regions[area] = number
        self._taken |= area


@dataclass(frozen=True, slots=True)
class PaintedSample:
    """One painted sample scene; `names` are those of region 1, 2, ..."""

    name: str
    title: str
    seed: int
    paint: Callable[..., tuple[NDArray[np.float64], NDArray[np.uint8]]]  # of seed and size
    group: str  # the names to choose from
    names: tuple[str, ...]


_LAND = ("road", "water", "vegetation", "building", "building", "unpaved land")
_CELLS = (*("white blood cell",) * 2, *("red blood cell",) * 4, *("platelet",) * 2)
PAINTED: Final = (
    PaintedSample("from-above", "From above (painted)", 4, paint_aerial, "aerial", _LAND),
    PaintedSample("blood-smear", "Blood smear (painted)", 5, paint_smear, "blood", _CELLS),
)


def painted_pictures(count: int = COUNT) -> list[Picture]:
    """Paint land from above and blood smears, ``count`` of each."""
    return [_picture(sample, FIRST_SEED + number) for sample in PAINTED for number in range(count)]


def _picture(sample: PaintedSample, seed: int) -> Picture:
    high, wide = (int(side) for side in np.random.default_rng(seed).integers(*SIZES, size=2))
    image, regions = sample.paint(seed, (high, wide))
    pixels = np.round(255 * image).astype(np.uint8)
    places = ndimage.find_objects(regions)
    boxes = np.array([(y.start, x.start, y.stop, x.stop) for y, x in places])
    labels = np.array([NAMES.index(name) for name in sample.names])
    everywhere = np.ones(regions.shape, bool)  # cells without a number are cells too
    name, numbers = f"{sample.name}-{seed}", regions.astype(np.int32)
    return Picture(sample.group, name, pixels, boxes, labels, numbers, everywhere)
