"""The command ``segment``: boxes and points, or everything, to a label image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..base.atomic_files import together
from ..base.errors import ConfigError, EmptyMaskError, InputError
from ..base.locks import hold
from ..base.progress_words import STARTING
from ..base.regions import Region
from ..base.targets import check_targets
from ..base.wording import counted
from ..pipeline.inputs import channels_of, input_files, open_stack
from ..regions.annotations.label_maps import write_labels
from ..regions.cleanup import CleanUp, clean_region
from ..regions.sam.prompts import (
    AutomaticConfig,
    Prompt,
    gather,
    read_boxes,
    read_points,
    regions_of_boxes,
)
from ..regions.sam.sam_checkpoints import CHECKPOINTS, CheckpointSpec, file_or_checkpoint
from ..results.settings import RunSettings
from .console import following, print_table, say
from .options import ImageFile, with_settings
from .run_options import fetch_sam

if TYPE_CHECKING:
    from ..images.plane_source import PlaneSource
    from ..regions.sam.segmenter import Segmented, Segmenter

_PICTURES = (".tif", ".tiff")


@with_settings("device", "plane", "series", "channels")
def segment_command(
    image: ImageFile,
    settings: RunSettings,
    *,
    boxes: Annotated[
        Path | None,
        typer.Option(help="CSV: y0,x0,y1,x1 (and object), or a Shapes layer saved by napari."),
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(
            help="CSV: y,x (and label: positive or negative; object), or a Points layer saved by "
            "napari. Points in a box belong to its object."
        ),
    ] = None,
    automatic: Annotated[
        bool,
        typer.Option(
            "--automatic",
            help="Segment everything in the image, without boxes and points; the options from "
            "--points-per-side on are for this.",
        ),
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="SAM checkpoint: a file, a folder of SAM 2, or one of "
            f"{', '.join(CHECKPOINTS)}, which is downloaded once. Without a checkpoint each box "
            "is a region."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Label TIFF to write.")] = Path("regions.tif"),
    overwrite: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
    candidate: Annotated[
        int,
        typer.Option(min=1, help="Which of an object's masks to use: 1 has the highest score."),
    ] = 1,
    cleanup: CleanUp,
    everything: AutomaticConfig,
) -> None:
    """Turn boxes and points into regions (Segment Anything): a label image for run."""
    if automatic and (boxes or points):
        raise ConfigError("--automatic finds everything by itself; leave --boxes and --points out.")
    if not automatic and not boxes and not points:
        raise InputError("Add --boxes FILE or --points FILE, or both, or --automatic.")
    if out.suffix.lower() not in _PICTURES:
        raise InputError(f"--out takes the name of a TIFF file (.tif); got {out}.")
    if checkpoint is None:
        wanted = None
    else:
        wanted = file_or_checkpoint(checkpoint)
    if automatic and wanted is None:
        raise InputError("--automatic needs a SAM checkpoint: --checkpoint FILE or vit_b.")
    weights = None
    if isinstance(wanted, Path):
        weights = wanted
    files = input_files(image, boxes, points, weights)
    check_targets([out], overwrite=overwrite, inputs=files)
    _held = hold(out)  # until this function returns
    with open_stack(image, settings, say) as stack:
        source = stack.source(stack.position(settings.plane), channels_of(settings))
        marks = read_boxes(boxes, say) if boxes else [], read_points(points) if points else []
        prompts = [] if automatic else gather(*marks, source.shape)
        beyond = []
        for mark in marks[0]:
            if mark.exceeds(source.shape):
                beyond.append(mark.name)
        if beyond:
            say(f"Cut at the edge of the image: {', '.join(beyond[:20])}")
        segmented: list[Segmented] | None = None
        if wanted is None:
            regions = regions_of_boxes(prompts)
            say("No SAM checkpoint (--checkpoint FILE or vit_b): each box is a region.")
            cleaned = [clean_region(region, source.shape, cleanup) for region in regions]
            ids = [prompt.id for prompt in prompts]
        else:
            segmenter = _load(wanted, settings.device)
            segmented = _find(segmenter, source, prompts, everything)
            cleaned = []
            for segmented_object in segmented:
                cleaned.append(segmented_object.region(candidate - 1, cleanup))
            ids = [segmented_object.id for segmented_object in segmented]
        kept = [region for region in cleaned if region is not None]
        if not kept:
            raise EmptyMaskError(
                "No object has any pixels left; nothing was written. Check the boxes and points, "
                "or try another --candidate or less --erode."
            )
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        with together(out.absolute().parent, overwrite=overwrite, keep=True):
            hidden = write_labels(out.absolute(), kept, source.shape)
    _print(ids, prompts, segmented, cleaned, candidate)
    if hidden:
        say(f"Covered by others and not in the file: {', '.join(map(str, hidden[:20]))}")
    say(f"Wrote {counted(len(kept) - len(hidden), 'region')} to {out}")


def _load(wanted: Path | CheckpointSpec, device: str) -> Segmenter:
    """Load a checkpoint, and download it first if necessary."""
    if isinstance(wanted, CheckpointSpec):
        wanted = fetch_sam(wanted)
    from ..regions.sam.sam_loading import load_segmenter

    return load_segmenter(wanted, device)


def _find(
    segmenter: Segmenter, source: PlaneSource, prompts: list[Prompt], config: AutomaticConfig
) -> list[Segmented]:
    with following(lambda bar, news: bar.show(news.text, news.fraction)) as bar:
        bar.show(STARTING)
        if prompts:
            return segmenter.segment(source, prompts)
        segmented = segmenter.segment_everything(source, config)
    if not segmented:
        raise EmptyMaskError(
            "SAM finds no mask with these scores; lower --min-score or --min-stability."
        )
    return segmented


def _print(
    ids: Sequence[int],
    prompts: Sequence[Prompt],
    segmented: Sequence[Segmented] | None,
    regions: Sequence[Region | None],
    candidate: int,
) -> None:
    """List the objects with the scores of their masks."""
    scored = () if segmented is None else ("score", "other masks")
    rows = []
    for place, (name, region) in enumerate(zip(ids, regions, strict=True)):
        cells = [str(name), prompts[place].text if prompts else "the image"]
        if segmented is not None:
            scores = list(segmented[place].scores)
            score_used = scores.pop(min(candidate, len(scores)) - 1)
            cells += [f"{score_used:.2f}", ", ".join(f"{score:.2f}" for score in scores)]
        cells.append("nothing left" if region is None else f"{region.area:,.0f}")
        rows.append(cells)
    title = counted(len(ids), "object")
    right = ("object", "score", "pixels")
    print_table(("object", "from", *scored, "pixels"), rows, title, right=right)
