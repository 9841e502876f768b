"""The table of data sets. Imports no torch; readers are imported when a set is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ...base.errors import InputError
from . import layouts
from .layouts import Layout

if TYPE_CHECKING:
    from .protocol import Dataset


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A data set that can be measured on by name."""

    name: str  # As on the command line
    summary: str  # Help of its command
    layout: Layout  # Where it comes from, and what lies where

    def open(self, data: Path | None = None, split: str | None = None) -> Dataset:
        """Open the set in the folder of all sets."""
        from ...demo_model.domains import data_folder
        from .reading import existing_folder

        split = self.layout.check_split(split)
        folder = data or data_folder()
        if folder is None:
            raise InputError(
                "There are no data: set NAPARI_MASKINVERSION_DATA, or --data, to the folder of "
                "sets."
            )
        return _open(self, existing_folder(folder, "--data"), split)


def _open(spec: DatasetSpec, folder: Path, split: str) -> Dataset:
    from .coco_instances import CocoInstances
    from .coco_panoptic import CocoPanoptic
    from .open_images import OpenImages
    from .pascal_context import PascalContext
    from .pascal_voc import PascalVoc
    from .phrasecut import PhraseCut
    from .real_domains import RealDomains
    from .refcoco import RefCoco

    match spec.name:
        case "coco-panoptic":
            inside = folder / spec.name
            return CocoPanoptic(inside if inside.is_dir() else folder)
        case "voc":
            return PascalVoc(folder, split)
        case "voc-19":
            return PascalVoc(folder, split, classes=19)
        case "context":
            return PascalContext(folder, split)
        case "coco":
            return CocoInstances(folder, split)
        case "openimages":
            return OpenImages(folder, split)
        case "phrasecut":
            return PhraseCut(folder, split)
        case "refcoco" | "refcoco+":
            return RefCoco(folder, split, spec.layout)
    return RealDomains(folder, spec.name)


_TABLE: Final = (
    DatasetSpec(
        "coco-panoptic",
        "Photographs with objects and background: all methods, and those of the paper.",
        layouts.COCO_PANOPTIC,
    ),
    DatasetSpec(
        "aerial",
        "Aerial images: all methods, in a window around each region.",
        layouts.AERIAL,
    ),
    DatasetSpec("blood", "Blood smears: all methods, in a window around each cell.", layouts.BLOOD),
    DatasetSpec("voc", "Pascal VOC 2012, 20 classes, one region per class and image.", layouts.VOC),
    DatasetSpec(
        "voc-19",
        "Pascal VOC 2012 without its last class, tv monitor: the paper has 19, unnamed.",
        layouts.VOC,
    ),
    DatasetSpec(
        "context", "Pascal Context, 59 classes, one region per class and image.", layouts.CONTEXT
    ),
    DatasetSpec("coco", "COCO instances, 80 classes; masks may overlap.", layouts.COCO),
    DatasetSpec(
        "openimages", "Open Images V7, 350 classes; masks may overlap.", layouts.OPEN_IMAGES
    ),
    DatasetSpec(
        "phrasecut", "PhraseCut: regions of photographs and a phrase for each.", layouts.PHRASECUT
    ),
    DatasetSpec("refcoco", "RefCOCO: objects of COCO with descriptions.", layouts.REFCOCO),
    DatasetSpec(
        "refcoco+",
        "RefCOCO+: objects of COCO with descriptions that name no places.",
        layouts.REFCOCO_PLUS,
    ),
)
DATASETS: Final[Mapping[str, DatasetSpec]] = MappingProxyType({spec.name: spec for spec in _TABLE})
VOC_CLASSES: Final[Mapping[int, str]] = {19: "voc-19", 20: "voc"}  # names of the sets
