"""The command line's ``export``: results that were saved, in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import InputError
from ..base.identity import another_image, identify_image
from ..images.opening import open_image
from ..results.export.archive import open_archive
from ..results.export.catalogue import FORMATS, check_formats, write_results
from ..results.export.targets import check_folder
from .inputs import input_files
from .models import say


def export_command(
    results: Annotated[Path, typer.Argument(help="A results.npz that run or the panel saved.")],
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("maskinversion_output"),
    formats: Annotated[
        str,
        typer.Option("--format", help=f"What to write, separated by commas: {', '.join(FORMATS)}."),
    ] = "csv,coco,geojson",
    image: Annotated[
        Path | None, typer.Option(help="Refuse results of another image than this one.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files in the folder.")] = False,
) -> None:
    """Write saved results in other formats, without computing anything."""
    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    names = check_formats(chosen)
    check_folder(out, names, overwrite=overwrite, inputs=input_files(results, image))
    bundle = open_archive(results)
    if image is not None:
        with open_image(image) as stack:
            difference = another_image(bundle.image, identify_image(image.name, stack.levels[0]))
        if difference:
            raise InputError(
                f"{results} holds results of another image than {image}: {difference}."
            )
    write_results(bundle, out, chosen)
    say(f"Wrote {', '.join(names)} in {out}")
