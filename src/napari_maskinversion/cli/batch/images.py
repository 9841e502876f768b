"""Options that name many images and their regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from ...base.errors import InputError
from ...batch.pairing import Pairs, pair, read_table
from ..console import say

ProjectPlace = Annotated[
    Path, typer.Argument(help="Project: a folder with project.yaml, or a file of another name.")
]
_SAID: Final = 5  # lines in full
NO_REGIONS: Final = "it has no regions; add them by --regions, or 'project add' with --regions."


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyImages:
    """Images and their regions: by pattern, or by a table."""

    images: Annotated[
        str | None,
        typer.Option(help='Images: a folder, or a pattern in quotes, such as "images/*.png".'),
    ] = None
    regions: Annotated[
        str | None,
        typer.Option(
            help="Regions of these images: a folder or pattern of label images or annotations "
            "(GeoJSON, VOC, ...) whose names begin or end with the images', "
            "'masks/{name}_mask.png', or one file about all images, such as COCO (default: the "
            "labels in OME-Zarr images, if they have any).",
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with the columns image, regions, and if need be name and series (an "
            "image's number in a file with several), instead of both options."
        ),
    ] = None
    positions: Annotated[
        bool,
        typer.Option(
            "--positions",
            help="Take each image of a file with several (positions, scenes), not only the first.",
        ),
    ] = False

    @property
    def are_named(self) -> bool:
        """Whether any of the options is given."""
        return self.positions or {self.images, self.regions, self.table} != {None}

    def pairs(self) -> Pairs:
        """Return what the options name, and say what was left out."""
        images, regions, table = self.images, self.regions, self.table
        if (images is None) == (table is None) or (table is not None and regions is not None):
            raise InputError("Name images by --images and --regions, or both by --table.")
        if table is not None and self.positions:
            raise InputError("--positions is about --images; a table has a column series for that.")
        if table is not None:
            pairs = read_table(table)
        else:
            pairs = pair(str(images), regions, positions=self.positions)
        say_first(pairs.notes)
        return pairs


def say_first(notes: Sequence[str]) -> None:
    """Say lines of one kind; only how many there are of those that follow the first few."""
    for note in notes[:_SAID]:
        say(note)
    if len(notes) > _SAID:
        say(f"And {len(notes) - _SAID} more lines like these.")


def counted(count: int) -> str:
    """Return a number of images in words."""
    return f"{count} image{'s' * (count != 1)}"
