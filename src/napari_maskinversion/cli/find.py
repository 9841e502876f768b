"""The command ``find``: regions ranked by an expression."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ..base.errors import ConfigError
from ..language.labels.label import choose_templates
from ..language.ranking.ranking import EXPRESSION_ALPHA, RegionMatch, check_expression, find
from ..pipeline.job import open_job
from ..results.settings import RunSettings
from .console import print_table, say
from .options import (
    EarlierResults,
    ImageFile,
    MaskFiles,
    template_option,
    with_paper,
    with_settings,
)
from .running import embedded, load, say_unfinished

if TYPE_CHECKING:
    from ..results.results import Results


@with_paper("expressions", template=["none"])
@with_settings(
    "model",
    "inversion",
    "input",
    "window",
    "planes",
    defaults={"inversion.alpha": EXPRESSION_ALPHA},
    help={
        "inversion.alpha": "How much of its surroundings a region's embedding keeps. For "
        "descriptions, the paper found about 5 best (RefCOCO: 42 % right at 0, 56 % at 5, 21 % at "
        "20); 0: the region alone."
    },
)
def find_command(
    image: ImageFile,
    masks: MaskFiles,
    expression: Annotated[str, typer.Argument(help="The region in words: the dog on the left.")],
    settings: RunSettings,
    template: Annotated[list[str] | None, template_option("none, the description as it is")] = None,
    top: Annotated[int, typer.Option(help="Regions to print.")] = 20,
    results: EarlierResults = None,
) -> None:
    """Rank the regions of an image by how well words fit them, best first.

    Use --window whole for words about places in the image, unless its regions are small.
    """
    templates = choose_templates(template or ("none",))
    check_expression(expression, templates)
    if top < 1:
        raise ConfigError(f"--top must be at least 1; got {top}.")
    with open_job(image, masks, settings, say) as job:
        model = load(settings.model, settings.architecture, settings.device)
        regions, finished = embedded(model, job, results)
    ranked = find(model, regions.embeddings, expression, templates)
    _print_matches(regions, ranked[:top], expression)
    if not finished:
        say_unfinished(regions, job)


def _print_matches(results: Results, ranked: list[RegionMatch], expression: str) -> None:
    title = f"{expression} ({results.count_text}, model {results.info.model})"
    columns = ("place", "region", *results.info.axes, "similarity", "margin")
    rows = []
    for place, match in enumerate(ranked, 1):
        region = results.regions[match.row]
        position = dict(region.position)
        axes = (str(position.get(axis, "")) for axis in results.info.axes)
        margin = "" if math.isnan(match.margin) else f"{match.margin:.3f}"
        status = replace(region, ranking=None).status  # those of an earlier run have one
        rows.append((str(place), str(region.id), *axes, f"{match.similarity:.3f}", margin, status))
    print_table((*columns, "status"), rows, title, right=columns)
