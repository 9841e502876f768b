"""The command ``bench tune``: learning rate and steps on VOC."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...base.errors import InputError
from ...bench.datasets.registry import DATASETS, VOC_CLASSES
from ...engine.settings import InversionConfig
from ..console import echo, say
from ..loading import load
from .data_sets import Data
from .scenes import Device, ModelName, SkipBad, bench, follow


@bench.command("tune")
def tune_command(
    *,
    model: ModelName = "ViT-B-16/openai",
    data: Data = None,
    split: Annotated[
        str, typer.Option(help="Split of VOC; the paper's curve is probably of val.")
    ] = "val",
    voc_classes: Annotated[
        int, typer.Option(help="Classes of VOC: 19, as the paper counts, or all 20.")
    ] = 19,
    rates: Annotated[
        str, typer.Option(help="Learning rates, separated by commas.")
    ] = "0.05,0.1,0.2,0.5,1",
    steps: Annotated[int, typer.Option(help="Last step.")] = 100,
    resolution: Annotated[int, typer.Option(help="Side of the model's input in pixels.")] = 448,
    limit: Annotated[
        int | None, typer.Option(help="Use only this many images, from the first.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Keep the figures here; a stopped measurement continues."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for table, CSV, plots and figures; a stopped run continues."),
    ] = None,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw no plots.")] = False,
    overwrite: Annotated[
        bool, typer.Option(help="Measure again what is kept, and replace files of others.")
    ] = False,
    skip_bad: SkipBad = False,
    device: Device = "auto",
) -> None:
    """Find learning rate and steps on Pascal VOC, and which of them the paper's curve agrees with.

    The paper does not state its learning rate: the published code has 0.1, its example 0.5. To
    choose your own settings, use --split train, because the tables are measured on val.
    """
    values = _rates(rates)
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1; got {limit}.")
    if voc_classes not in VOC_CLASSES:
        raise InputError(f"--voc-classes takes 19 or 20; got {voc_classes}.")
    if not 32 <= resolution <= 4096:
        raise InputError(f"--resolution must be from 32 to 4096; got {resolution}.")
    InversionConfig(steps=steps)
    spec = DATASETS[VOC_CLASSES[voc_classes]]
    spec.layout.check_split(split)
    from ...bench.measures.figures_file import figures_page, typed_command, write_figures
    from ...bench.measures.measuring import Measuring, open_records
    from ...bench.paper.tuning import curve_of, tuning_plan
    from ...bench.reports.paper_report import write_files
    from ...bench.reports.tuning_report import TUNING, cells_of, tuning_markdown

    if json is None and out is not None:
        json = out / f"{TUNING.file}.json"
    _check_files(json, out, overwrite=overwrite, plots=not no_plots)
    dataset = spec.open(data, split)
    plan = tuning_plan(model, values, steps, resolution=resolution, limit=limit, skip_bad=skip_bad)
    store = open_records(json, "tune", plan, dataset, overwrite=overwrite)
    job = Measuring(dataset, plan, store, lambda name: load(name, None, device))
    try:
        follow(job.run, json, store.records)
    finally:
        for line in (*job.stale.lines(), *(f"Left out: {why}" for why in job.skipped.values())):
            say(line)
    keys = [key for key in job.keys if key not in job.skipped]
    curves = [curve_of(store, plan, entry, keys) for entry in plan.entries]
    settings = {"model": model, "data": dataset.name, "images": len(keys), "px": resolution}
    if json is not None:
        parts = {
            f"rate {curve.rate:g}": {"points": curve.points, "drift": curve.drift}
            for curve in curves
        }
        write_figures(figures_page("tune", settings, parts), json)
    text = tuning_markdown(curves, settings, typed_command())
    echo(text)
    if out is not None:
        write_files(TUNING, cells_of(curves, model), text, out, plots=not no_plots)
        say(f"Wrote table, CSV and figures to {out}")


def _check_files(json: Path | None, out: Path | None, *, overwrite: bool, plots: bool) -> None:
    """Refuse files that must not be written, and plots that cannot be drawn."""
    from ...base.record_store import records_path
    from ...base.targets import check_targets
    from ...bench.reports.paper_report import check_files
    from ...bench.reports.tuning_report import TUNING
    from .scenes import is_ours

    if out is not None:
        check_files([TUNING], out, overwrite=overwrite, plots=plots)
    if json is not None:
        check_targets([json, records_path(json)], overwrite=overwrite, is_ours=is_ours)


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"--rates takes numbers such as 0.1,0.5; got {text!r}.") from None
    for rate in rates:
        InversionConfig(learning_rate=rate)  # raises for what cannot be one
    return rates
