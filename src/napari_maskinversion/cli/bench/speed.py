"""The command ``bench speed``."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from ...base.errors import InputError
from ...engine.models.specs import DEMO
from ...pipeline.estimate import patch_of
from ..options import with_option_groups
from . import paper
from .shared import REPORTS, Device, Output, bench, follow

__all__ = ["bench", "paper"]  # with all its commands

_KIND: Final = "speed"
REPORTS[_KIND] = "napari_maskinversion.bench.reports.speed"


@bench.command(_KIND)
@with_option_groups
def speed_command(
    *,
    architecture: Annotated[
        str, typer.Option(help="Of open_clip, with random weights (no download); or demo.")
    ] = "ViT-B-16",
    masks: Annotated[str, typer.Option(help="Masks in a whole image.")] = "5,10,50,100",
    side: Annotated[int, typer.Option(help="Side of whole images in pixels.")] = 448,
    regions: Annotated[int, typer.Option(min=1, help="Regions of the large image.")] = 500,
    images: Annotated[int, typer.Option(min=1, help="Images of the batch.")] = 200,
    reference: Annotated[
        Path, typer.Option(help="The repository's folder of results of the published code.")
    ] = Path("tests/reference"),
    minutes: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Most time for all. Where a first timing says that it is not enough, calls are "
            "repeated less often, and there are fewer regions and images.",
        ),
    ] = 5.0,
    device: Device = "auto",
    output: Output,
) -> None:
    """Measure how fast this machine is, with a GPU or without; no download."""
    if not re.fullmatch(r"\s*[1-9]\d*(\s*,\s*[1-9]\d*)*\s*", masks):
        raise InputError(f"--masks takes numbers of masks, such as 5,10; got {masks!r}.")
    patch = patch_of(architecture)
    if side % patch or not 32 <= side <= 3072:
        raise InputError(f"--side must be a multiple of {patch} from 32 to 3072; got {side}.")
    output.check(_KIND)
    import open_clip
    import torch

    from ...bench.measures.figures_file import FiguresFile
    from ...bench.measures.speed import SpeedPlan
    from ...engine.compute.devices import choose_device, processor

    if architecture not in (DEMO, *open_clip.list_models()):
        raise InputError(
            f"--architecture must be one of open_clip's, or demo; got {architecture!r}."
        )
    plan = SpeedPlan(
        device=str(choose_device(device)),
        architecture=architecture,
        side=side,
        masks=tuple(map(int, masks.split(","))),
        regions=regions,
        images=images,
        reference=str(reference),
        minutes=minutes,
    )
    if "cuda" in plan.device:
        name = torch.cuda.get_device_name(plan.device)
    else:
        name = processor()
    about = {"hardware": name, "torch": torch.__version__, "threads": torch.get_num_threads()}
    record = FiguresFile(output.json, _KIND, asdict(plan) | about, overwrite=output.overwrite)
    try:
        follow(lambda report: record.measure(plan.parts(), report), output.json, record.parts)
    finally:  # also after Ctrl-C: what is measured so far
        output.show(record.page)
