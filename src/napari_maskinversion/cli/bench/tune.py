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
from .paper import Limit, NoPlots, Overwrite, VocClasses, check_numbers
from .scenes import Device, ModelName, SkipBad, bench, follow, is_ours


@bench.command("tune")
def tune_command(
    *,
    model: ModelName = "ViT-B-16/openai",
    data: Data = None,
    split: Annotated[
        str, typer.Option(help="Split of VOC; the paper's curve is probably of val.")
    ] = "val",
    voc_classes: VocClasses = 19,
    rates: Annotated[
        str, typer.Option(help="Learning rates, separated by commas.")
    ] = "0.05,0.1,0.2,0.5,1",
    steps: Annotated[int, typer.Option(help="Last step.")] = 100,
    resolution: Annotated[int, typer.Option(help="Side of the model's input in pixels.")] = 448,
    limit: Limit = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder for table, CSV, plots and figures; a stopped run continues."),
    ] = Path("tune"),
    no_plots: NoPlots = False,
    overwrite: Overwrite = False,
    skip_bad: SkipBad = False,
    device: Device = "auto",
) -> None:
    """Find learning rate and steps on Pascal VOC, and which of them the paper's curve agrees with.

    The paper does not state its learning rate: the published code has 0.1, its example 0.5. To
    choose your own settings, use --split train, because the tables are measured on val.
    """
    values = _rates(rates)
    check_numbers(limit, voc_classes, resolution)
    InversionConfig(steps=steps)
    spec = DATASETS[VOC_CLASSES[voc_classes]]
    spec.layout.check_split(split)
    from ...base.record_store import records_path
    from ...base.targets import check_targets
    from ...bench.measures.figures_file import figures_page, typed_command, write_figures
    from ...bench.measures.measuring import Measuring, open_records
    from ...bench.paper.tuning import curve_of, tuning_plan
    from ...bench.reports.paper_report import check_files, write_files
    from ...bench.reports.tuning_report import TUNING, cells_of, tuning_markdown

    json = out / f"{TUNING.file}.json"
    read = [] if data is None else [data]
    check_files([TUNING], out, overwrite=overwrite, inputs=read, plots=not no_plots)
    check_targets([json, records_path(json)], overwrite=overwrite, inputs=read, is_ours=is_ours)
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
    parts = {
        f"rate {curve.rate:g}": {"points": curve.points, "drift": curve.drift} for curve in curves
    }
    write_figures(figures_page("tune", settings, parts), json)
    text = tuning_markdown(curves, settings, typed_command())
    echo(text)
    write_files(TUNING, cells_of(curves, model), text, out, plots=not no_plots)
    say(f"Wrote table, CSV and figures to {out}")


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"--rates takes numbers such as 0.1,0.5; got {text!r}.") from None
    for rate in rates:
        InversionConfig(learning_rate=rate)  # raises for what cannot be one
    return rates
