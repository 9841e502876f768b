"""The command ``run``: from an image and its regions to tables, heatmaps and files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from ..base.errors import InputError
from ..base.identity import identify_image
from ..base.locks import hold
from ..base.targets import check_targets
from ..language.labels.presets import vocabulary_of
from ..pipeline.inputs import Inputs, input_files, open_inputs, origin, vocabulary_in
from ..pipeline.run import check_tasks
from ..regions.annotations.reading import is_annotations
from ..results.agreement import agreement_of
from ..results.export.bundle import Bundle, compress_masks
from ..results.export.catalogue import DEFAULT, check_formats, write_results
from ..results.export.heatmaps import check_room, pages_are_planes
from ..results.printing import print_results
from ..results.settings import RunSettings
from .captions.banks import CaptionSource
from .console import say
from .loading import load
from .options import (
    Formats,
    ImageFile,
    MaskFiles,
    Polygons,
    RawCsv,
    check_polygons,
    split_names,
    template_option,
    with_paper,
    with_settings,
)
from .running import invert, say_unfinished

DEFAULT_FORMATS: Final = ",".join(DEFAULT)
_LISTED: Final = 8  # names in a text
LARGEST_INPUT: Final = (1024, 1024)  # pixels of heatmaps that are kept at the model's input size


@with_paper(template=["photo"])
@with_settings(
    "model", "method", "inversion", "input", "window", "planes", "units", "labels", "uncertainty"
)
def run_command(
    image: ImageFile,
    masks: MaskFiles,
    settings: RunSettings,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels separated by commas (car | automobile: synonyms), a file of labels (text, "
            "CSV, YAML), or a list that comes with the package: preset:coco; see labels list. "
            "(default: the names in the file of regions, if it has any)"
        ),
    ] = None,
    template: Annotated[
        list[str] | None, template_option("those of the file or preset, else photo")
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(
            help="Also find the best captions, with labels or without: a caption bank (see "
            "captions build), or a text or CSV file, which is embedded once and kept."
        ),
    ] = None,
    caption_column: Annotated[
        str | None, typer.Option(help="Column of a CSV file of captions.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the results. They hold suggestions; the panel exports what you "
            "decided in a review."
        ),
    ] = Path("maskinversion_output"),
    formats: Formats = DEFAULT_FORMATS,
    overwrite: Annotated[bool, typer.Option(help="Replace results in the folder.")] = False,
    raw_csv: RawCsv = False,
    polygons: Polygons = False,
) -> None:
    """Embed, label and explain the regions of an image; write files and print a table."""
    if labels is None and captions is None and not is_annotations(masks):
        raise InputError("Add --labels dog,cat or --captions FILE, or both.")
    method = settings.method
    method.check()
    chosen = split_names(formats)
    names = check_formats(chosen)
    check_polygons(polygons, chosen)
    vocabulary = None
    if labels is not None:
        vocabulary = vocabulary_of(labels, template or (), settings.threshold)
    caption_source = None if captions is None else CaptionSource(captions, column=caption_column)
    files = input_files(image, masks, labels, captions, settings.model, method.weights)
    check_targets([out / name for name in names], overwrite=overwrite, inputs=files)
    _held = hold(out)  # until this function returns
    inputs = open_inputs(image, masks, settings, say)
    if vocabulary is None:
        vocabulary = vocabulary_in(masks, inputs.names, template or (), settings.threshold)
        _say_names(masks, inputs.names)
    if vocabulary is None and captions is None:
        raise InputError(
            f"{masks} has no names of regions; add --labels dog,cat or --captions FILE, or both."
        )
    check_tasks(inputs.tasks)
    source = origin(image, masks, settings, inputs.stack, inputs.coco_numbers)
    if "tif" in chosen and method.inverts:
        _check_room(out, inputs, settings)
    identity = asdict(identify_image(image.name, inputs.stack.levels[0]))
    model = load(settings.model, settings.architecture, settings.device)
    bank = None if caption_source is None else caption_source.bank(model)
    results, finished = invert(model, inputs, vocabulary, settings, bank)
    masks_of_regions = compress_masks(inputs.tasks)
    bundle = Bundle(
        results=results,
        masks=masks_of_regions,
        source=source,
        image=identity,
        raw_csv=raw_csv,
        polygons=polygons,
    )
    written = write_results(bundle, out, chosen, overwrite=overwrite)
    print_results(results)
    agreement = agreement_of(results)
    compared = "" if agreement is None else agreement.text
    for note in (compared, method.lacks, results.info.flags_note):
        if note:
            say(note)
    say(f"Wrote {', '.join(file.name for file in written)} in {out}")
    if not finished:
        say_unfinished(results, inputs)


def _say_names(masks: Path, names: Collection[str]) -> None:
    if names:
        listed = ", ".join(list(names)[:_LISTED]) + ", ..." * (len(names) > _LISTED)
        say(f"Labels: the names in {masks} ({listed}).")


def _check_room(out: Path, inputs: Inputs, settings: RunSettings) -> None:
    shape = inputs.tasks[0].regions.shape
    regions = sum(len(task.regions) for task in inputs.tasks)
    planes = pages_are_planes(shape, regions, whole=settings.window.mode == "whole")
    check_room(out, regions, shape if planes else LARGEST_INPUT)
