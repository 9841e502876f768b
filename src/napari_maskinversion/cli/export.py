"""The command ``export``: saved results in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ..base.errors import InputError
from ..base.identity import another_image, identify_image
from ..images.opening import open_image
from ..results.columns import columns_in
from ..results.export.archive import open_archive
from ..results.export.catalogue import FORMATS
from ..review.reporting import with_decisions
from .console import print_table, say
from .options import AcceptedOnly, Output, with_option_groups

_OUTPUT: Final = Output(formats="csv,coco,geojson")


def _print_columns(wanted: bool) -> None:
    """Print the columns of the results table and stop."""
    if not wanted:
        return
    rows = []
    for column in columns_in("files"):
        rows.append((column.name, column.unit, column.explanation))
    print_table(("column", "unit", "meaning"), rows, whole="column")
    say(
        "Depending on the run: label_1, label_2, similarity_2 ... (ranked labels), caption, "
        "caption_similarity, caption_2 ... (captions), and the plane's index on each axis."
    )
    raise typer.Exit


@with_option_groups
def export_command(
    results: Annotated[Path, typer.Argument(help="A results.npz that run or the panel saved.")],
    output: Output = _OUTPUT,
    image: Annotated[
        Path | None, typer.Option(help="Check that the results belong to this image.")
    ] = None,
    accepted_only: AcceptedOnly = False,
    columns: Annotated[
        bool,
        typer.Option(
            "--columns",
            callback=_print_columns,
            is_eager=True,
            help="List the columns of the table and what they mean.",
        ),
    ] = False,
) -> None:
    """Write saved results in other formats, without computing anything."""
    _held = output.begin(results, image)  # until this function returns
    bundle = with_decisions(open_archive(results), str(results))
    if accepted_only:
        bundle = bundle.accepted()
    info = bundle.results.info
    if image is not None:
        with open_image(image, info.settings.series) as stack:
            difference = another_image(bundle.image, identify_image(image.name, stack.levels[0]))
        if difference:
            raise InputError(
                f"{results} holds results of another image than {image}: {difference}."
            )
    written = output.write(bundle)
    if not all(FORMATS[name].applies(bundle.results) for name in output.chosen):
        say(info.method.lacks)
    say(written)
