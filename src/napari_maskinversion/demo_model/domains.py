"""Real images with known regions: aerial tiles, blood smears, cell nuclei, as scenes.

The images are not part of the project; ``NAPARI_MASKINVERSION_DATA`` names their folder. Without
it the demo model is trained and measured on drawings only. Tiles and images are split first, so
training never sees a pixel of a test image.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..base.errors import InputError
from ..images.decoding import open_picture
from .scenes import DISTRACTOR, NOTHING, SceneBatch
from .vocabulary import REAL

FOLDER_VARIABLE: Final = "NAPARI_MASKINVERSION_DATA"
Split = Literal["train", "validation", "test"]
KINDS: Final[tuple[str, ...]] = ("aerial", "blood", "nuclei")
NAMES: Final[tuple[str, ...]] = tuple(n.name for n in REAL)
SLOTS: Final = 4  # regions of a view
PAINTED_SHARE: Final = 0.2
LEAST_AERIAL: Final = 400  # pixels of an aerial region
_TEST_TILES: Final = (3, 5, 6)
_VALIDATION_TILES: Final = (1,)
FOLDERS: Final = {"aerial": "dubai-aerial", "blood": "bccd", "nuclei": "dsb2018-nuclei"}
_ENDINGS: Final = {"aerial": "*.jpg", "blood": "*.jpg", "nuclei": "*.png"}
_ANNOTATIONS: Final = {"aerial": "labels", "blood": "annotations", "nuclei": "labels"}
_BLOOD: Final = {"RBC": 5, "WBC": 6, "Platelets": 7}
_CORNERS: Final = ("xmin", "ymin", "xmax", "ymax")
_LAND: Final = sum(name.group == "aerial" for name in REAL)  # values of aerial label images


class AnnotationError(InputError):
    """An annotation does not fit its image; the message names the file."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One image and its regions, real or painted.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    name : str
        File name without suffix.
    pixels : ndarray, shape (H, W, 3), uint8
    boxes : ndarray, shape (R, 4), int
        y0, x0, y1, x1 of each region.
    labels : ndarray, shape (R,), int
        Index into `NAMES`.
    regions : ndarray, shape (H, W), int32, or None
        Label image of the regions, from 1; None if regions are the ellipses in their boxes.
    known : ndarray, shape (H, W), bool
        False where the annotation says nothing.
    """

    kind: str
    name: str
    pixels: NDArray[np.uint8]
    boxes: NDArray[np.int64]
    labels: NDArray[np.int64]
    regions: NDArray[np.int32] | None
    known: NDArray[np.bool_]

    def mask(
        self, index: int, y: int, x: int, height: int, width: int, step: int = 1
    ) -> NDArray[np.float32]:
        """Return the mask of one region in a window, 0 or 1, at every `step`-th pixel."""
        if self.regions is not None:
            window = self.regions[y : y + height : step, x : x + width : step]
            return np.asarray(window == index + 1, dtype=np.float32)
        y0, x0, y1, x1 = self.boxes[index]
        ys = (np.arange(y, y + height, step) + 0.5 - (y0 + y1) / 2) / max((y1 - y0) / 2, 0.5)
        xs = (np.arange(x, x + width, step) + 0.5 - (x0 + x1) / 2) / max((x1 - x0) / 2, 0.5)
        return np.asarray(ys[:, None] ** 2 + xs[None] ** 2 <= 1, dtype=np.float32)


def data_folder() -> Path | None:
    """Return the folder of the real images, or None."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def split_of(kind: str, name: str, index: int) -> Split:
    """Return the split of a picture: aerial ones by tile, others by index."""
    if kind == "aerial":
        tile = int(re.findall(r"\d+", name)[0])
        if tile in _TEST_TILES:
            return "test"
        return "validation" if tile in _VALIDATION_TILES else "train"
    if index % 5 == 0:
        return "test"
    return "validation" if index % 20 == 1 else "train"


def load(folder: Path, split: Split, kinds: Sequence[str] = KINDS) -> list[Picture]:
    """Read every picture of a split."""
    pictures = [read_picture(f, kind) for kind in kinds for f in files_of(folder, split, kind)]
    return [picture for picture in pictures if picture is not None]


def files_of(folder: Path, split: Split, kind: str) -> list[Path]:
    """Return the image files of a split."""
    files = sorted((folder / FOLDERS[kind] / "images").glob(_ENDINGS[kind]))
    return [f for index, f in enumerate(files) if split_of(kind, f.stem, index) == split]


def read_picture(file: Path, kind: str) -> Picture | None:
    """Read one of these files and its annotation; None if it has no usable region."""
    return annotated(file, kind, pixels_of(file))


def pixels_of(file: Path) -> NDArray[np.uint8]:
    """Read one of these images as 8-bit RGB."""
    with open_picture(file) as picture:
        return np.asarray(picture.convert("RGB"), np.uint8)


def annotated(file: Path, kind: str, pixels: NDArray[np.uint8]) -> Picture | None:
    """Read the annotation of an image, see `annotation_of`; None if it has no usable region."""
    readers = {"aerial": _aerial, "blood": _blood, "nuclei": _nuclei}
    return readers[kind](file, pixels)


def annotation_of(file: Path, kind: str) -> Path:
    """Return the file of an image's label image or boxes."""
    ending = ".xml" if kind == "blood" else ".png"
    return file.parent.parent / _ANNOTATIONS[kind] / f"{file.stem}{ending}"


def _fitting(labels: NDArray[Any], pixels: NDArray[np.uint8], file: Path) -> NDArray[Any]:
    """Refuse a label image whose size differs from its image."""
    if labels.shape != pixels.shape[:2]:
        one, other = (" x ".join(map(str, shape)) for shape in (labels.shape, pixels.shape[:2]))
        raise AnnotationError(
            f"{file} is {one} px, its image {other} px; a label image has one number for each "
            "pixel of its image."
        )
    return labels


def _numbers(path: Path) -> NDArray[Any]:
    with open_picture(path) as picture:
        return np.asarray(picture)


def _aerial(file: Path, pixels: NDArray[np.uint8]) -> Picture:
    from skimage.measure import label, regionprops

    labelled = annotation_of(file, "aerial")
    classes = _fitting(_numbers(labelled), pixels, labelled)
    if classes.max(initial=0) > _LAND:
        raise AnnotationError(
            f"{labelled} holds class {classes.max()}; there are {_LAND}, and 0 for none."
        )
    parts = label(classes, background=0, connectivity=1)
    regions = np.zeros(classes.shape, np.int32)
    boxes, labels = [], []
    for props in regionprops(parts):
        if props.area >= LEAST_AERIAL:
            boxes.append(props.bbox)
            y, x = props.coords[0]
            labels.append(int(classes[y, x]) - 1)
            regions[tuple(props.coords.T)] = len(boxes)
    return Picture(
        "aerial", file.stem, pixels, np.array(boxes), np.array(labels), regions, classes > 0
    )


def _blood(file: Path, pixels: NDArray[np.uint8]) -> Picture | None:
    noted = annotation_of(file, "blood")
    page = ElementTree.parse(noted)
    _check_smear(page, pixels, noted)
    boxes, labels, known = [], [], np.zeros(pixels.shape[:2], bool)
    for thing in page.iter("object"):
        corner = thing.find("bndbox")
        if corner is None:
            continue
        x0, y0, x1, y1 = (int(corner.findtext(k, "0")) for k in _CORNERS)
        y0, x0 = max(y0, 0), max(x0, 0)
        y1, x1 = min(y1, pixels.shape[0]), min(x1, pixels.shape[1])
        if min(y1 - y0, x1 - x0) >= 8:
            boxes.append((y0, x0, y1, x1))
            labels.append(_BLOOD[thing.findtext("name", "")])
            known[y0:y1, x0:x1] = True
    if not boxes:
        return None
    return Picture("blood", file.stem, pixels, np.array(boxes), np.array(labels), None, known)


def _check_smear(page: Any, pixels: NDArray[np.uint8], file: Path) -> None:
    """Refuse boxes outside the image, and unknown cells."""
    height, width = pixels.shape[:2]
    size = page.find("size")
    if size is not None:
        annotated = tuple(size.findtext(side, "") for side in ("width", "height"))
        if annotated != (str(width), str(height)):
            raise AnnotationError(
                f"{file} is of an image of {annotated[0]} x {annotated[1]} px; its image has "
                f"{width} x {height} px."
            )
    for number, thing in enumerate(page.iter("object"), 1):
        name = thing.findtext("name", "")
        if name not in _BLOOD:
            raise AnnotationError(
                f"{file}, object {number}: {name!r} is none of {', '.join(_BLOOD)}."
            )
        corner = thing.find("bndbox")
        if corner is None:
            continue
        try:
            x0, y0, x1, y1 = (int(corner.findtext(k, "")) for k in _CORNERS)
        except ValueError:
            raise AnnotationError(f"{file}, object {number}: its box is no four numbers.") from None
        if x1 <= 0 or y1 <= 0 or x0 >= width or y0 >= height:
            raise AnnotationError(
                f"{file}, object {number}: its box ({x0}, {y0}, {x1}, {y1}) lies outside the image."
            )


def _nuclei(file: Path, pixels: NDArray[np.uint8]) -> Picture | None:
    from skimage.measure import regionprops

    noted = annotation_of(file, "nuclei")
    ids = _fitting(_numbers(noted), pixels, noted).astype(np.int32)
    colours = np.abs(pixels - pixels.mean(2, keepdims=True)).mean() > 2.5
    if pixels.mean() > 100 and not colours:
        return None  # neither fluorescence nor a stain
    regions, boxes = np.zeros(ids.shape, np.int32), []
    for props in regionprops(ids):
        if props.area >= 40:
            boxes.append(props.bbox)
            regions[tuple(props.coords.T)] = len(boxes)
    if not boxes:
        return None
    labels = np.full(len(boxes), 9 if colours else 8)
    return Picture("nuclei", file.stem, pixels, np.array(boxes), labels, regions, ids > 0)


def _places(pictures: Sequence[Picture]) -> dict[int, list[tuple[Picture, int]]]:
    """Return by label where it is seen: pictures and places in their tables of regions."""
    places: dict[int, list[tuple[Picture, int]]] = {}
    for picture in pictures:
        for place, label in enumerate(picture.labels.tolist()):
            places.setdefault(label, []).append((picture, place))
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStyle:
    """How views are cut and changed; the defaults are those of measurements."""

    context: dict[str, tuple[float, float]]
    least: dict[str, int]
    most: dict[str, int]
    colour: float = 0.12
    distractors: float = 0.4


TRAINING: Final = ViewStyle(
    context={"aerial": (1.0, 3.5), "blood": (1.2, 4.0), "nuclei": (1.5, 6.0)},
    least={"aerial": 72, "blood": 48, "nuclei": 24},
    most={"aerial": 480, "blood": 420, "nuclei": 256},
)
# Measurements show the plain style. With it alone, land cover got worse late in training.
VARIED: Final = replace(TRAINING, colour=0.22)


class Views:
    """Random views of pictures, with balanced classes.

    ``share`` of the views of a class are of ``painted`` pictures, if those show it.
    """

    def __init__(
        self,
        pictures: Sequence[Picture],
        first_label: int,
        painted: Sequence[Picture] = (),
        share: float = PAINTED_SHARE,
    ) -> None:
        self.first_label = first_label
        self.share = share
        self.places = _places(pictures)
        self.painted = _places(painted)
        self.classes = sorted(self.places)

    def draw(
        self,
        rng: torch.Generator,
        count: int,
        size: tuple[int, int],
        style: ViewStyle = TRAINING,
    ) -> SceneBatch:
        """Return `count` views of (H, W) = `size` with up to four regions and a distractor."""
        chance = torch.rand(count, 12, generator=rng, device=rng.device).cpu().numpy()
        images, masks, labels = [], [], []
        for row in chance:
            image, mask, label = self._view(row, size, style)
            images.append(image)
            masks.append(mask)
            labels.append(label)
        x = torch.from_numpy(np.stack(images)).to(rng.device)
        m = torch.from_numpy(np.stack(masks)).to(rng.device)
        device = rng.device
        gain = torch.randn(count, 3, 1, 1, generator=rng, device=device) * style.colour * 0.5
        gain = gain + torch.randn(count, 1, 1, 1, generator=rng, device=device) * style.colour
        x = (x * gain.exp()).clamp(0, 1)
        grain = 0.05 * torch.rand(count, 1, 1, 1, generator=rng, device=device) ** 2
        x = x + grain * torch.randn(x.shape, generator=rng, device=device)
        return SceneBatch(x.clamp(0, 1), m, torch.tensor(np.stack(labels), device=device))

    def _view(
        self, row: NDArray[np.float32], size: tuple[int, int], style: ViewStyle
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        shown = self.classes[int(row[0] * len(self.classes)) % len(self.classes)]
        painted = row[10] < self.share and shown in self.painted
        places = self.painted[shown] if painted else self.places[shown]
        picture, r = places[int(row[1] * len(places)) % len(places)]
        kind, (height, width) = picture.kind, picture.pixels.shape[:2]
        y0, x0, y1, x1 = picture.boxes[r]
        low, high = style.context[kind]
        side = max(y1 - y0, x1 - x0) * (low + (high - low) * float(row[2]) ** 1.5)
        side = int(np.clip(side, style.least[kind], min(style.most[kind], height, width)))
        # the region's centre lies anywhere in the middle half of the view
        y = int((y0 + y1) / 2 - side * (0.25 + 0.5 * row[3]))
        x = int((x0 + x1) / 2 - side * (0.25 + 0.5 * row[4]))
        y, x = int(np.clip(y, 0, height - side)), int(np.clip(x, 0, width - side))
        inside = np.flatnonzero(
            (picture.boxes[:, 0] < y + side)
            & (picture.boxes[:, 2] > y)
            & (picture.boxes[:, 1] < x + side)
            & (picture.boxes[:, 3] > x)
        )
        step = max(1, side // (2 * max(size)))  # masks need no finer pixels
        shown_masks = [(picture.mask(int(i), y, x, side, side, step), int(i)) for i in inside[:64]]
        shown_masks = [(m, i) for m, i in shown_masks if m.mean() > 0.004]
        shown_masks.sort(key=lambda pair: (pair[1] != r, -pair[0].sum()))
        shown_masks = shown_masks[:SLOTS]
        labels = np.full(SLOTS + 1, NOTHING, np.int64)
        free = ~picture.known[y : y + side : step, x : x + side : step]
        masks = np.zeros((SLOTS + 1, *free.shape), np.float32)
        for slot, (mask, i) in enumerate(shown_masks):
            masks[slot], labels[slot] = mask, picture.labels[i] + self.first_label
        if picture.kind != "aerial" and row[5] < style.distractors:
            at = np.argwhere(free)
            if len(at):
                cy, cx = at[int(row[6] * len(at)) % len(at)]
                ys, xs = np.ogrid[: len(free), : len(free)]
                radius = len(free) * (0.08 + 0.12 * float(row[7]))
                disc = ((ys - cy) ** 2 + (xs - cx) ** 2 <= radius**2) & free
                if disc.mean() > 0.01:
                    masks[-1], labels[-1] = disc, DISTRACTOR
        pixels = picture.pixels[y : y + side, x : x + side].transpose(2, 0, 1)
        turns = int(row[9] * 4)

        def placed(window: NDArray[Any]) -> Tensor:
            """Mirror and turn a window, then scale it to the view."""
            window = window[:, :, ::-1] if row[8] < 0.5 else window
            window = np.ascontiguousarray(np.rot90(window, turns, (1, 2)))
            stack = torch.from_numpy(window)[None]
            return F.interpolate(stack, size, mode="bilinear", antialias=True)[0].float()

        return placed(pixels).div(255).numpy(), placed(masks).numpy(), labels
