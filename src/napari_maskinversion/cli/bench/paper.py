"""The command ``bench paper``: the paper's tables, run again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from ...base.errors import InputError
from ...base.reading import check_file
from ...base.targets import check_folder
from ...base.wording import counted
from ...bench.paper import TABLES
from ...engine.settings import InversionConfig
from ...language.captions.source import CaptionSource
from ...language.generation.registry import DECODERS
from ...language.generation.settings import GenerationSettings
from ...pipeline.caption_ranking import CaptionRequest
from ...regions.sam.sam_checkpoints import CHECKPOINTS, file_or_checkpoint
from ...results.settings import RunSettings
from ..captions import Beams, Memory, SearchOption, bank_of
from ..console import echo, say
from ..options import with_option_groups
from ..run_options import load, load_captioner
from .data_sets import Data, Weights
from .shared import Device, Rate, SkipBad, Steps, bench, follow

if TYPE_CHECKING:
    from ...bench.paper.paper_running import PaperPlan
    from ...engine.models.backbone import Backbone
    from ...language.generation.decoder import CaptionDecoder

_USUAL: Final = GenerationSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of the commands that repeat what the paper measured."""

    data: Data = None
    voc_classes: Annotated[
        int, typer.Option(min=19, max=20, help="Classes of VOC: 19, as the paper counts, or 20.")
    ] = 19
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Use only this many images of each set, from the first."),
    ] = None
    resolution: Annotated[
        int,
        typer.Option(
            min=32,
            max=4096,
            help="Side in pixels of the input of methods that use tokens of the whole image.",
        ),
    ] = 448
    overwrite: Annotated[
        bool, typer.Option(help="Measure again what is kept, and replace files of others.")
    ] = False
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw no plots.")] = False
    skip_bad: SkipBad = False
    device: Device = "auto"


@bench.command("paper")
@with_option_groups
def paper_command(
    *,
    table: Annotated[
        str,
        typer.Option(help=f"Tables, separated by commas: {', '.join(TABLES)}; or all."),
    ] = "all",
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
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="SET=SPLIT, such as refcoco=testA; may be repeated (default: the set's first; "
            "bench datasets lists them)."
        ),
    ] = None,
    ties: Annotated[
        Literal["last", "first"],
        typer.Option(
            help="Regions or sentences with the same score: last counts them against the answer, "
            "first takes the first of them."
        ),
    ] = "last",
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
    options: RunOptions,
) -> None:
    """Repeat the paper's tables, and show its figures next to the measured ones.

    Always with the paper's settings: the whole image as a square of 448 px, K = 10, learning rate
    0.1, alpha 5 for RefCOCO and RefCOCO+, else 0; the options change it. Rows without weights or
    data tell you what they need.
    """
    from ...bench.measures.relations import by_words, load_parser
    from ...bench.paper.choices import (
        captioner,
        choose,
        open_sets,
        parts_of,
        read_sets,
        read_splits,
    )
    from ...bench.paper.paper_running import PaperBench, PaperPlan
    from ...bench.paper.tables import tables_by_name
    from ...bench.reports import paper_report
    from ...demo_model.domains import data_folder

    tables = tables_by_name(table)
    if method_weights is not None:
        check_file(method_weights, "checkpoint")
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    reads = by_words if parser is None else load_parser(parser)
    if decoder is None and (decoder_file or memory):
        raise InputError("--decoder-file and --memory belong to a decoder; name it by --decoder.")
    checkpoint = _sam(sam)
    needed = tuple(dict.fromkeys(chain.from_iterable(entry.sets for entry in tables)))
    backbones = choose(models)
    folder = options.data or data_folder()
    chosen = read_sets(sets)
    splits = read_splits(split or [])
    is_named = options.data is not None
    opened = open_sets(folder, needed, chosen, splits, options.voc_classes, some=is_named)

    def loaded(name: str) -> Backbone:
        file, architecture = parts_of(name)
        return load(RunSettings(model=file, architecture=architecture, device=options.device))

    how = GenerationSettings(search=search, beams=beams)  # type: ignore[arg-type]
    request = None
    sentences = None
    if decoder is not None:
        request = CaptionRequest(decoder=decoder, file=decoder_file, settings=how)
        sentences = None if memory is None else CaptionSource(memory)

    def writer(model: Backbone) -> CaptionDecoder:
        assert request is not None
        if sentences is None:
            bank = request.memory
        else:
            bank = bank_of(sentences, model)
        return load_captioner(replace(request, memory=bank), model)

    sentences_hash = "" if sentences is None else sentences.sha256
    generator, lacks = captioner(
        request, backbones, writer, loaded, memory=memory, sentences=sentences_hash
    )
    plan = PaperPlan(
        tables=tables,
        backbones=backbones,
        sets=opened,
        inversion=inversion,
        resolution=options.resolution,
        weights=method_weights,
        sam=checkpoint,
        captions=lacks,
        limit=options.limit,
        skip_bad=options.skip_bad,
        parser=reads,
    )
    read = []
    for path in (options.data, method_weights, checkpoint, decoder_file, memory):
        if path:
            read.append(path)
    plots = not options.no_plots
    overwrite = options.overwrite
    paper_report.check_files(tables, out, overwrite=overwrite, inputs=read, plots=plots)
    check_folder(out / "records")  # its files are checked where they are opened
    job = PaperBench(
        plan, out, loaded, captioner=generator, device=options.device, overwrite=overwrite
    )
    for why in _left_out(plan):
        say(why)
    try:
        follow(job.run, out, job)
    finally:  # also after Ctrl-C or an error: what is measured so far
        for note in dict.fromkeys(job.notes):
            say(note)
        for entry in tables:
            cells = paper_report.cells_of(job, entry, ties)
            text = paper_report.markdown(job, entry, cells, ties)
            paper_report.write_files(entry, cells, text, out, ties, plots=plots)
            echo(text)
        say(f"Wrote {counted(len(tables), 'table')} to {out}")
    if job.failures:
        why, *further = dict.fromkeys(job.failures.values())
        more = ""
        if further:
            more = f" ({len(further)} more in the tables)"
        raise InputError(f"Not everything was measured: {why}{more}")


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
    timed = any(not table.sets for table in plan.tables)
    if not (plan.backbones.models and (plan.sets.opened or timed)):
        lines.append("Nothing can be measured: the tables show the paper's figures alone.")
    return lines
