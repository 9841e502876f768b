"""The command ``export``: saved results in other formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ..base.errors import InputError
from ..base.identity import another_image, identify_image
from ..base.locks import hold
from ..base.targets import check_targets
from ..images.opening import open_image
from ..pipeline.inputs import input_files
from ..results.columns import columns_in
from ..results.export.archive import open_archive
from ..results.export.catalogue import check_formats, write_results
from ..review.reporting import with_decisions
from .console import print_table, say
from .options import Formats, Polygons, RawCsv, check_polygons, split_names


def _print_columns(wanted: bool) -> None:
    """Print the columns of the results table and stop."""
    if not wanted:
        return
    table = Table()
    for title in ("column", "unit", "meaning"):
        table.add_column(title, no_wrap=title == "column")
    for column in columns_in("files"):
        table.add_row(column.name, column.unit, column.explanation)
    print_table(table)
    say(
        "Depending on the run: label_1, label_2, similarity_2 ... (ranked labels), caption, "
        "caption_similarity, caption_2 ... (captions), and the plane's index on each axis."
    )
    raise typer.Exit


def export_command(
    results: Annotated[Path, typer.Argument(help="A results.npz that run or the panel saved.")],
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("maskinversion_output"),
    formats: Formats = "csv,coco,geojson",
    image: Annotated[
        Path | None, typer.Option(help="Check that the results belong to this image.")
    ] = None,
    accepted_only: Annotated[
        bool, typer.Option("--accepted-only", help="Only regions that were accepted in a review.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace files in the folder.")] = False,
    raw_csv: RawCsv = False,
    polygons: Polygons = False,
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
    chosen = split_names(formats)
    names = check_formats(chosen)
    check_polygons(polygons, chosen)
    targets, read = [out / name for name in names], input_files(results, image)
    check_targets(targets, overwrite=overwrite, inputs=read)
    _held = hold(out)  # until this function returns
    bundle = with_decisions(open_archive(results), str(results))
    if accepted_only:
        bundle = bundle.accepted()
    if image is not None:
        with open_image(image, bundle.results.info.settings.series) as stack:
            difference = another_image(bundle.image, identify_image(image.name, stack.levels[0]))
        if difference:
            raise InputError(
                f"{results} holds results of another image than {image}: {difference}."
            )
    bundle = replace(bundle, raw_csv=raw_csv, polygons=polygons)
    written = write_results(bundle, out, chosen, overwrite=overwrite)
    if len(written) < len(names):
        say(bundle.results.info.method.lacks)
    say(f"Wrote {', '.join(file.name for file in written) or 'nothing'} in {out}")
