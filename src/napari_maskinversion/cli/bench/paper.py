"""The commands ``bench paper`` and ``bench tune``: the paper's tables and curve, run again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...base.errors import InputError
from ...base.targets import check_folder
from ...bench.datasets.registry import DATASETS, VOC_CLASSES
from ...bench.paper import TABLES
from ...engine.settings import InversionConfig
from ...language.generation.registry import DECODERS
from ...language.generation.settings import GenerationSettings
from ...pipeline.captions import CaptionRequest
from ...regions.sam.checkpoints import CHECKPOINTS, file_or_checkpoint
from ..captions.banks import CaptionSource
from ..captions.generate import Beams, Memory, SearchOption
from ..console import echo, say
from ..loading import load, load_captioner
from .data_sets import Data, Weights
from .scenes import Device, ModelName, Rate, SkipBad, Steps, bench, follow, is_ours

if TYPE_CHECKING:
    from ...bench.paper.choices import PaperSets
    from ...bench.paper.running import PaperPlan
    from ...engine.models.backbone import Backbone
    from ...language.generation.decoder import CaptionDecoder

_USUAL: Final = GenerationSettings()

Limit = Annotated[
    int | None, typer.Option(help="Use only this many images of each set, from the first.")
]
NoPlots = Annotated[bool, typer.Option("--no-plots", help="Draw no plots.")]
Overwrite = Annotated[
    bool, typer.Option(help="Measure again what is kept, and replace files of others.")
]
VocClasses = Annotated[
    int, typer.Option(help="Classes of VOC: 19, as the paper counts, or all 20.")
]
Split = Annotated[
    list[str] | None,
    typer.Option(
        help="SET=SPLIT, such as refcoco=testA; may be repeated (default: the set's first; bench "
        "datasets lists them)."
    ),
]


@bench.command("paper")
def paper_command(
    *,
    table: Annotated[
        str,
        typer.Option(help=f"Tables, separated by commas: {', '.join(TABLES)}; or all."),
    ] = "all",
    data: Data = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Models separated by commas; BACKBONE=MODEL says what a model stands for, "
            "BACKBONE=FILE:ARCHITECTURE what a file of weights is; one other model, such as demo, "
            "stands in for all (default: the paper's that are on this machine)."
        ),
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="Only these data sets, separated by commas.")
    ] = None,
    split: Split = None,
    voc_classes: VocClasses = 19,
    limit: Limit = None,
    ties: Annotated[
        str,
        typer.Option(
            help="Regions or sentences with the same score: last counts them against the answer, "
            "first takes the first of them."
        ),
    ] = "last",
    resolution: Annotated[
        int,
        typer.Option(
            help="Side in pixels of the input of methods that use tokens of the whole image."
        ),
    ] = 448,
    steps: Steps = 10,
    learning_rate: Rate = 0.1,
    method_weights: Weights = None,
    sam: Annotated[
        str | None,
        typer.Option(
            help=f"Checkpoint of Segment Anything for table 4: a file, or {', '.join(CHECKPOINTS)} "
            "once fetched."
        ),
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(DECODERS),
            help="Generator of captions for table 6; the paper's is clipcap-coco or "
            "clipcap-conceptual.",
        ),
    ] = None,
    decoder_file: Annotated[
        Path | None, typer.Option(help="Weights of your own for the decoder.")
    ] = None,
    memory: Memory = None,
    search: SearchOption = _USUAL.search,
    beams: Beams = _USUAL.beams,
    parser: Annotated[
        str | None,
        typer.Option(
            help="MODULE:FUNCTION that reads relations in sentences, for ReCLIP's row (default: by "
            "words)."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for tables, plots and records; a stopped run continues.")
    ] = Path("paper"),
    overwrite: Overwrite = False,
    no_plots: NoPlots = False,
    skip_bad: SkipBad = False,
    device: Device = "auto",
) -> None:
    """Repeat the paper's tables, and show its figures next to the measured ones.

    Always with the paper's settings: the whole image as a square of 448 px, K = 10, learning rate
    0.1, alpha 5 for RefCOCO and RefCOCO+, else 0; the options change it. Rows without weights or
    data tell you what they need.
    """
    from ...bench.measures.relations import by_words, load_parser
    from ...bench.measures.retrieval import TIES
    from ...bench.paper.cells import cells_of
    from ...bench.paper.choices import captioner, choose, parts_of
    from ...bench.paper.running import PaperBench, PaperPlan
    from ...bench.paper.tables import tables_by_name
    from ...bench.reports import paper_report

    tables = tables_by_name(table)
    if ties not in TIES:
        raise InputError(f"--ties takes last or first; got {ties!r}.")
    check_numbers(limit, voc_classes, resolution)
    if method_weights is not None and not method_weights.is_file():
        raise InputError(f"There is no file {method_weights}; --method-weights names a checkpoint.")
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    reads = by_words if parser is None else load_parser(parser)
    if decoder is None and (decoder_file or memory):
        raise InputError("--decoder-file and --memory belong to a decoder; name it by --decoder.")
    checkpoint = _sam(sam)
    needed = tuple(dict.fromkeys(name for one in tables for name in one.sets))
    backbones = choose(models)
    opened = _sets(needed, data, sets, split or [], voc_classes)

    def loaded(name: str) -> Backbone:
        return load(*parts_of(name), device)

    how = GenerationSettings(search=search, beams=beams)  # type: ignore[arg-type]
    request, sentences = None, None
    if decoder is not None:
        request = CaptionRequest(decoder=decoder, file=decoder_file, settings=how)
        sentences = None if memory is None else CaptionSource(memory)

    def writer(model: Backbone) -> CaptionDecoder:
        assert request is not None
        bank = request.memory if sentences is None else sentences.bank(model)
        return load_captioner(replace(request, memory=bank), model)

    generator, lacks = captioner(
        request,
        backbones,
        writer,
        loaded,
        memory=memory,
        sentences="" if sentences is None else sentences.sha256,
    )
    plan = PaperPlan(
        tables=tables,
        backbones=backbones,
        sets=opened,
        inversion=inversion,
        resolution=resolution,
        weights=method_weights,
        sam=checkpoint,
        captions=lacks,
        limit=limit,
        skip_bad=skip_bad,
        parser=reads,
    )
    read = [one for one in (data, method_weights, checkpoint, decoder_file, memory) if one]
    plots = not no_plots
    paper_report.check_files(tables, out, overwrite=overwrite, inputs=read, plots=plots)
    check_folder(out / "records")  # its files are checked where they are opened
    job = PaperBench(plan, out, loaded, captioner=generator, device=device, overwrite=overwrite)
    for why in _left_out(plan):
        say(why)
    try:
        follow(job.run, out, job)
    finally:  # also after Ctrl-C or an error: what is measured so far
        for note in dict.fromkeys(job.notes):
            say(note)
        for one in tables:
            cells = cells_of(job, one, ties)
            text = paper_report.markdown(job, one, cells, ties)
            paper_report.write_files(one, cells, text, out, ties, plots=plots)
            echo(text)
        say(f"Wrote {len(tables)} table{'s' * (len(tables) != 1)} to {out}")
    if job.failures:
        why, *others = dict.fromkeys(job.failures.values())
        more = f" ({len(others)} more in the tables)" if others else ""
        raise InputError(f"Not everything was measured: {why}{more}")


def check_numbers(limit: int | None, voc_classes: int, resolution: int) -> None:
    """Raise for numbers that cannot work, before anything is loaded."""
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1; got {limit}.")
    if voc_classes not in VOC_CLASSES:
        raise InputError(f"--voc-classes takes 19 or 20; got {voc_classes}.")
    if not 32 <= resolution <= 4096:
        raise InputError(f"--resolution must be from 32 to 4096; got {resolution}.")


def _sets(
    needed: tuple[str, ...],
    data: Path | None,
    sets: str | None,
    split: list[str],
    voc_classes: int,
) -> PaperSets:
    from ...bench.paper.choices import PaperSets, open_sets, read_sets, read_splits
    from ...demo_model.domains import data_folder

    chosen, splits = read_sets(sets), read_splits(split)
    if not needed:
        return PaperSets({}, {})
    folder = data or data_folder()
    return open_sets(folder, needed, chosen, splits, voc_classes, some=data is not None)


def _sam(text: str | None) -> Path | None:
    """Return a checkpoint of Segment Anything: a file, or one that was fetched."""
    if text is None:
        return None
    spec = file_or_checkpoint(text)
    if isinstance(spec, Path):
        return spec
    if not spec.is_on_disk:
        raise InputError(
            f"The checkpoint {spec.name} is not on this machine: napari-maskinversion models fetch "
            f"{spec.name}."
        )
    return spec.path


def _left_out(plan: PaperPlan) -> list[str]:
    """Return lines about what cannot be measured, before the work."""
    lines = [f"{backbone}: {why}." for backbone, why in plan.backbones.lacks.items()]
    lines += [f"{name}: {why}." for name, why in plan.sets.lacks.items()]
    measurable = plan.backbones.models and (
        plan.sets.opened or any(not table.sets for table in plan.tables)
    )
    if not measurable:
        lines.append("Nothing can be measured: the tables show the paper's figures alone.")
    return lines


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
    spec.check_split(split)
    from ...base.record_store import records_path
    from ...base.targets import check_targets
    from ...bench.measures.figures_file import figures_page, typed_command, write_figures
    from ...bench.measures.measuring import Measuring, open_records
    from ...bench.reports.paper_report import check_files, write_files
    from ...bench.reports.tuning import TUNING, cells_of, curve_of, tuning_markdown, tuning_plan

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
        for line in (*job.notes(), *(f"Left out: {why}" for why in job.skipped.values())):
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
