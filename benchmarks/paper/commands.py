"""The command ``bench tune``: the paper's curve, and which settings it agrees with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.datasets.registry import DATASETS, VOC_CLASSES
from napari_maskinversion.cli.bench.data_sets import follow_records
from napari_maskinversion.cli.bench.paper import RunOptions
from napari_maskinversion.cli.bench.shared import ModelName, bench, is_ours
from napari_maskinversion.cli.console import echo, say
from napari_maskinversion.cli.options import with_option_groups
from napari_maskinversion.cli.run_options import load
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.results.settings import RunSettings


@bench.command("tune")
@with_option_groups
def tune_command(
    *,
    model: ModelName = "ViT-B-16/openai",
    split: Annotated[
        str, typer.Option(help="Split of VOC; the paper's curve is probably of val.")
    ] = "val",
    rates: Annotated[
        str, typer.Option(help="Learning rates, separated by commas.")
    ] = "0.05,0.1,0.2,0.5,1",
    steps: Annotated[int, typer.Option(help="Last step.")] = 100,
    out: Annotated[
        Path,
        typer.Option(help="Folder for table, CSV, plots and figures; a stopped run continues."),
    ] = Path("tune"),
    options: RunOptions,
) -> None:
    """Find learning rate and steps on Pascal VOC, and which of them the paper's curve agrees with.

    The paper does not state its learning rate: the published code has 0.1, its example 0.5. To
    choose your own settings, use --split train, because the tables are measured on val.
    """
    values = _rates(rates)
    InversionConfig(steps=steps)
    spec = DATASETS[VOC_CLASSES[options.voc_classes]]
    spec.check_split(split)
    from napari_maskinversion.base.targets import check_targets
    from napari_maskinversion.bench.measures.figures_file import (
        figures_page,
        records_path,
        typed_command,
        write_figures,
    )
    from napari_maskinversion.bench.measures.measuring import Measuring, open_records
    from napari_maskinversion.bench.reports.paper_report import check_files, write_files

    from .tuning import TUNING, cells_of, curve_of, tuning_markdown, tuning_plan

    json, overwrite, plots = out / f"{TUNING.file}.json", options.overwrite, not options.no_plots
    read = [] if options.data is None else [options.data]
    check_files([TUNING], out, overwrite=overwrite, inputs=read, plots=plots)
    check_targets([json, records_path(json)], overwrite=overwrite, inputs=read, is_ours=is_ours)
    dataset = spec.open(options.data, split)
    named = {name: getattr(options, name) for name in ("resolution", "limit", "skip_bad")}
    plan = tuning_plan(model, values, steps, **named)
    store = open_records(json, "tune", plan, dataset, overwrite=overwrite)
    job = Measuring(
        dataset, plan, store, lambda name: load(RunSettings(model=name, device=options.device))
    )
    follow_records(job, json)
    keys = [key for key in job.keys if key not in job.skipped]
    curves = [curve_of(store, plan, entry, keys) for entry in plan.entries]
    px = options.resolution
    settings = {"model": model, "data": dataset.name, "images": len(keys), "px": px}
    parts = {
        f"rate {curve.rate:g}": {"points": curve.points, "drift": curve.drift} for curve in curves
    }
    write_figures(figures_page("tune", settings, parts), json)
    text = tuning_markdown(curves, settings, typed_command())
    echo(text)
    write_files(TUNING, cells_of(curves, model), text, out, plots=plots)
    say(f"Wrote table, CSV and figures to {out}")


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"--rates takes numbers such as 0.1,0.5; got {text!r}.") from None
    for rate in rates:
        InversionConfig(learning_rate=rate)  # raises for what cannot be one
    return rates
