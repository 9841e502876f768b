"""The command line's ``find``: regions ranked by an expression."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..base.errors import ConfigError
from ..engine.settings import ExplainerName, InversionConfig
from ..images.windows import WindowConfig
from ..language.labels.templates import TEMPLATES, choose_templates
from ..language.ranking.finding import EXPRESSION_ALPHA, Found, check_expression, find
from ..pipeline.run import check_tasks
from .earlier_results import embedded_before
from .inputs import open_inputs, origin
from .models import WIDTH, load
from .options import (
    Architecture,
    Channels,
    ChunkSize,
    Context,
    Device,
    Explainer,
    Fast,
    ImageFile,
    Layers,
    LearningRate,
    MaskFiles,
    Merge,
    Model,
    Only,
    Plane,
    Planes,
    Resolution,
    Square,
    Steps,
    Window,
)
from .running import invert, say_unfinished

if TYPE_CHECKING:
    from ..results.results import Results


def find_command(
    image: ImageFile,
    masks: MaskFiles,
    expression: Annotated[str, typer.Argument(help="The region in words: the dog on the left.")],
    template: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Prompts: {', '.join(TEMPLATES)}, or a sentence with {{}}; may be repeated "
            "(default: none, the expression as it stands)."
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            help="How much of its surroundings a region's embedding keeps. For such expressions "
            "the paper found about 5 best (RefCOCO: 42 % right at 0, 56 % at 5, 21 % at 20); 0 "
            "looks at the region alone."
        ),
    ] = EXPRESSION_ALPHA,
    top: Annotated[int, typer.Option(help="Regions to print.")] = 20,
    results: Annotated[
        Path | None,
        typer.Option(
            help="results.npz of an earlier run --format npz --alpha 5 --window whole on the same "
            "files: its embeddings are used again; refused where anything differs."
        ),
    ] = None,
    model: Model = "demo",
    architecture: Architecture = None,
    device: Device = "auto",
    steps: Steps = 10,
    learning_rate: LearningRate = 0.1,
    layers: Layers = 1,
    explainer: Explainer = "legrad",
    fast: Fast = False,
    chunk_size: ChunkSize = None,
    resolution: Resolution = None,
    square: Square = False,
    window: Window = "whole",
    context: Context = 2.0,
    planes: Planes = None,
    plane: Plane = "",
    channels: Channels = None,
    only: Only = "",
    merge: Merge = None,
) -> None:
    """Rank the regions of an image by how well words fit them, best first.

    The model sees the whole image with every region, since expressions speak of places in it
    (--window auto for small regions of large images).
    """
    templates = choose_templates(template or ("none",))
    check_expression(expression, templates)
    if top < 1:
        raise ConfigError(f"--top must be at least 1; got {top}.")
    windows = WindowConfig.parse(window, context)
    config = InversionConfig(
        steps=steps,
        learning_rate=learning_rate,
        alpha=alpha,
        layers=layers,
        explainer=cast("ExplainerName", explainer),
        fast=fast,
    )
    inputs = open_inputs(
        image,
        masks,
        plane=plane,
        planes=planes,
        channels=channels,
        only=only,
        merge=merge or [],
        pixel_size=None,
        unit="µm",
    )
    check_tasks(inputs.tasks)
    loaded = load(model, architecture, device)
    seen: dict[str, Any] = {"resolution": resolution, "square": square}
    if results is None:
        embedded, finished = invert(
            loaded, inputs, None, config, windows, chunk_size=chunk_size, **seen
        )
    else:
        source = origin(image, masks, channels)
        with inputs.stack:
            embedded = embedded_before(results, inputs, source, loaded, config, windows, **seen)
        finished = True
    found = find(loaded, embedded.unit_embeddings, expression, templates)
    _print_found(embedded, found[:top], expression)
    if not finished:
        say_unfinished(embedded, inputs)


def _print_found(results: Results, found: list[Found], expression: str) -> None:
    title = f"{expression} ({len(results)} regions, model {results.info.model})"
    table = Table(title=escape(title))
    for name in ("place", "region", *results.info.axes, "similarity", "margin"):
        table.add_column(escape(name), justify="right")
    table.add_column("status")
    for place, one in enumerate(found, 1):
        region = results.regions[one.row]
        position = dict(region.position)
        table.add_row(
            str(place),
            str(region.id),
            *(str(position.get(axis, "")) for axis in results.info.axes),
            f"{one.similarity:.3f}",
            "" if math.isnan(one.margin) else f"{one.margin:.3f}",
            escape(region.status),
        )
    Console(width=WIDTH).print(table)
