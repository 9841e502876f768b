"""The table of data sets. Imports no torch; readers are imported when a set is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ...base.errors import InputError

if TYPE_CHECKING:
    from .protocol import Dataset


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A data set that can be measured on by name.

    Attributes
    ----------
    name : str
        As on the command line.
    summary : str
        Help of its command.
    """

    name: str
    summary: str

    def open(self, data: Path | None = None) -> Dataset:
        """Open the set in the folder of all sets.

        Parameters
        ----------
        data : Path, optional
            By default the folder that ``NAPARI_MASKINVERSION_DATA`` names.

        Raises
        ------
        InputError
            If there is no such folder, or the set is not in it.
        """
        from ...demo_model.domains import data_folder
        from .coco_panoptic import CocoPanoptic
        from .reading import existing_folder
        from .real_domains import RealDomains

        folder = data or data_folder()
        if folder is None:
            raise InputError(
                "There are no data: set NAPARI_MASKINVERSION_DATA, or --data, to the folder of "
                "sets."
            )
        existing_folder(folder, "--data")
        if self.name != CocoPanoptic.name:
            return RealDomains(folder, self.name)
        inside = folder / self.name
        return CocoPanoptic(inside if inside.is_dir() else folder)


_TABLE: Final = (
    DatasetSpec(
        "coco-panoptic", "Photographs with things and stuff: all methods, and the paper's."
    ),
    DatasetSpec("aerial", "Land seen from above: all methods, in a window around each region."),
    DatasetSpec("blood", "Blood smears: all methods, in a window around each cell."),
)
DATASETS: Final[Mapping[str, DatasetSpec]] = MappingProxyType({spec.name: spec for spec in _TABLE})
