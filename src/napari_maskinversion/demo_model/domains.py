"""Real images with known regions: aerial tiles, blood smears, cell nuclei.

The images are not part of the project; ``NAPARI_MASKINVERSION_DATA`` names their folder. Without
it the demo model is trained and measured on drawings only. Tiles and images are split first, so
training never sees a pixel of a test image.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError
from ..images.decoding import open_picture
from .scene_words import REAL

FOLDER_VARIABLE: Final = "NAPARI_MASKINVERSION_DATA"
Split = Literal["train", "validation", "test"]
KINDS: Final[tuple[str, ...]] = ("aerial", "blood", "nuclei")
NAMES: Final[tuple[str, ...]] = tuple(n.name for n in REAL)
LEAST_AERIAL: Final = 400  # pixels of an aerial region
_TEST_TILES: Final = (3, 5, 6)
_VALIDATION_TILES: Final = (1,)
FOLDERS: Final = {"aerial": "dubai-aerial", "blood": "bccd", "nuclei": "dsb2018-nuclei"}
_ENDINGS: Final = {"aerial": "*.jpg", "blood": "*.jpg", "nuclei": "*.png"}
_ANNOTATIONS: Final = {"aerial": "labels", "blood": "annotations", "nuclei": "labels"}
_BLOOD: Final = {"RBC": 5, "WBC": 6, "Platelets": 7}
_CORNERS: Final = ("xmin", "ymin", "xmax", "ymax")
_LAND: Final = sum(name.group == "aerial" for name in REAL)  # values of aerial label images


@dataclass(frozen=True, slots=True)
class Picture:
    """One image and its regions, real or painted."""

    kind: str  # one of `KINDS`
    name: str  # file name without suffix
    pixels: NDArray[np.uint8]  # (H, W, 3)
    boxes: NDArray[np.int64]  # (R, 4), y0, x0, y1, x1 of each region
    labels: NDArray[np.int64]  # (R,), index into `NAMES`
    regions: NDArray[np.int32] | None  # (H, W), from 1; None if they are the ellipses in the boxes
    known: NDArray[np.bool_]  # (H, W), False where the annotation says nothing

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
    if named and Path(named).is_dir():
        return Path(named)
    return None


def split_of(kind: str, name: str, index: int) -> Split:
    """Return the split of a picture: aerial ones by tile, others by index."""
    if kind == "aerial":
        tile = int(re.findall(r"\d+", name)[0])
        if tile in _TEST_TILES:
            return "test"
        if tile in _VALIDATION_TILES:
            return "validation"
        return "train"
    if index % 5 == 0:
        return "test"
    if index % 20 == 1:
        return "validation"
    return "train"


def load(folder: Path, split: Split, kinds: Sequence[str] = KINDS) -> list[Picture]:
    """Read every picture of a split."""
    pictures = []
    for kind in kinds:
        for f in files_of(folder, split, kind):
            pictures.append(read_picture(f, kind))
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
        labels_size = " x ".join(map(str, labels.shape))
        pixels_size = " x ".join(map(str, pixels.shape[:2]))
        raise InputError(
            f"{file} is {labels_size} px, its image {pixels_size} px; a label image has one number "
            "for each pixel of its image."
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
        raise InputError(
            f"{labelled} holds class {classes.max()}; there are {_LAND}, and 0 for none."
        )
    parts = label(classes, background=0, connectivity=1)
    regions = np.zeros(classes.shape, np.int32)
    boxes = []
    labels = []
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
    height, width = pixels.shape[:2]
    page = ElementTree.parse(noted)
    size = page.find("size")
    if size is not None:
        sides = tuple(size.findtext(side, "") for side in ("width", "height"))
        if sides != (str(width), str(height)):
            raise InputError(
                f"{noted} is of an image of {sides[0]} x {sides[1]} px; its image has {width} x "
                f"{height} px."
            )
    boxes = []
    labels = []
    annotated = np.zeros((height, width), bool)
    for thing in page.iter("object"):
        label = _BLOOD[thing.findtext("name", "")]
        if (box := thing.find("bndbox")) is None:
            continue
        x0, y0, x1, y1 = (int(box.findtext(k, "")) for k in _CORNERS)
        y0 = max(y0, 0)
        x0 = max(x0, 0)
        y1 = min(y1, height)
        x1 = min(x1, width)
        if min(y1 - y0, x1 - x0) >= 8:
            boxes.append((y0, x0, y1, x1))
            labels.append(label)
            annotated[y0:y1, x0:x1] = True
    if not boxes:
        return None
    return Picture("blood", file.stem, pixels, np.array(boxes), np.array(labels), None, annotated)


def _nuclei(file: Path, pixels: NDArray[np.uint8]) -> Picture | None:
    from skimage.measure import regionprops

    noted = annotation_of(file, "nuclei")
    ids = _fitting(_numbers(noted), pixels, noted).astype(np.int32)
    colours = np.abs(pixels - pixels.mean(2, keepdims=True)).mean() > 2.5
    if pixels.mean() > 100 and not colours:
        return None  # neither fluorescence nor a stain
    regions = np.zeros(ids.shape, np.int32)
    boxes = []
    for props in regionprops(ids):
        if props.area >= 40:
            boxes.append(props.bbox)
            regions[tuple(props.coords.T)] = len(boxes)
    if not boxes:
        return None
    labels = np.full(len(boxes), 9 if colours else 8)
    return Picture("nuclei", file.stem, pixels, np.array(boxes), labels, regions, ids > 0)
