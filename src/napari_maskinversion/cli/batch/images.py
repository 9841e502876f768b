"""Options that name many images and their regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from ...base.errors import InputError
from ...base.reading import validated
from ...batch.pairing import Pairs, pair, read_table
from ...batch.project import ProjectImage, relative
from ..console import say

ProjectPlace = Annotated[
    Path, typer.Argument(help="Project: a folder with project.yaml, or a file of another name.")
]
Images = Annotated[
    str | None,
    typer.Option(help='Images: a folder, or a pattern in quotes, such as "images/*.png".'),
]
RegionFiles = Annotated[
    str | None,
    typer.Option(
        "--regions",
        help="Regions of these images: a folder or pattern of label images or annotations "
        "(GeoJSON, VOC, ...) whose names begin or end with the images', 'masks/{name}_mask.png', "
        "or one file about all images, such as COCO (default: the labels in OME-Zarr images, if "
        "they have any).",
    ),
]
Positions = Annotated[
    bool,
    typer.Option(
        "--positions",
        help="Take each image of a file with several (positions, scenes), not only the first.",
    ),
]
Table = Annotated[
    Path | None,
    typer.Option(
        help="CSV file with the columns image, regions, and if need be name and series (an image's "
        "number in a file with several), instead of both options."
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Labels separated by commas, a file of labels, or preset:coco, as for run (default: "
        "the names in the files of regions)."
    ),
]

Captions = Annotated[
    Path | None,
    typer.Option(
        help="Also find the best captions, with labels or without: a caption bank, or a text or "
        "CSV file, as for run."
    ),
]
CaptionColumn = Annotated[str | None, typer.Option(help="Column of a CSV file of captions.")]

_SAID: Final = 5  # lines in full
NO_REGIONS: Final = "it has no regions; add them by --regions, or 'project add' with --regions"


def pairs_of(
    images: str | None, regions: str | None, table: Path | None, *, positions: bool = False
) -> Pairs:
    """Return what the options name, and say what was left out."""
    if (images is None) == (table is None) or (table is not None and regions is not None):
        raise InputError("Name images by --images and --regions, or both by --table.")
    if table is not None and positions:
        raise InputError("--positions is about --images; a table has a column series for that.")
    pairs = (
        read_table(table) if table is not None else pair(str(images), regions, positions=positions)
    )
    say_first(pairs.notes)
    return pairs


def say_first(notes: Sequence[str]) -> None:
    """Say lines of one kind; only how many there are of those that follow the first few."""
    for note in notes[:_SAID]:
        say(note)
    if len(notes) > _SAID:
        say(f"And {len(notes) - _SAID} more lines like these.")


def project_images(pairs: Pairs, folder: Path) -> Iterable[ProjectImage]:
    """Yield pairs as images of the project in a folder."""
    for one in pairs.pairs:
        regions = None if one.regions is None else relative(one.regions, folder)
        values = {
            "name": one.name,
            "image": relative(one.image, folder),
            "series": one.series,
            "regions": regions,
        }
        yield validated(ProjectImage, values, one.image)


def counted(count: int) -> str:
    """Return a number of images in words."""
    return f"{count} image{'s' * (count != 1)}"
