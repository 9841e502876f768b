"""The command ``find``: regions ranked by an expression, or found by one where there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..base.errors import ConfigError, InputError
from ..base.progress_words import STARTING
from ..language.labels.label import choose_templates
from ..language.ranking.query import check_query
from ..language.ranking.ranking import EXPRESSION_ALPHA, RegionMatch, find
from ..pipeline.job import Job, open_job, open_plane
from ..regions.sam.sam_checkpoints import CHECKPOINTS, CheckpointSpec, file_or_checkpoint, on_disk
from ..results.export.archive import open_archive
from ..results.settings import RunSettings
from .console import ProgressBar, following, print_table, say
from .options import (
    EarlierResults,
    ImageFile,
    Output,
    is_written,
    template_option,
    with_paper,
    with_settings,
)
from .run_options import embedded, fetch_sam, load, say_unfinished

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..pipeline.finding import FloatArray
    from ..regions.sam.sam3 import Concepts
    from ..regions.sam.segmenter import Segmenter
    from ..results.results import Results

_FILES: Final = Output(out=Path("found"), formats="csv,json,geojson,masks")


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
        "20); 0: the region alone, which is the default without MASKS."
    },
)
def find_command(
    image: ImageFile,
    masks: Annotated[
        str | None,
        typer.Argument(
            metavar="[MASKS]",
            help="Regions to rank, in any file that run reads. Without them regions are proposed, "
            "and those that fit are written.",
        ),
    ] = None,
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="WORDS",
            help="The region in words: the dog on the left. Commas separate several, not comes "
            "before what is to be avoided (red cell, not debris); quotes keep both.",
        ),
    ] = None,
    *,
    settings: RunSettings,
    template: Annotated[list[str] | None, template_option("none, the description as it is")] = None,
    top: Annotated[int, typer.Option(min=1, help="Regions to print.")] = 20,
    results: EarlierResults = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Instead of words: examples. Regions of this image in a file, or results.npz of "
            "another image; --only 3,5 chooses some."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Without MASKS: least similarity (default: 0.36; 0.6 for examples)."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Without MASKS: the SAM that proposes regions, a file or folder or "
            f"{', '.join(CHECKPOINTS)}, or none (default: one on this machine, else none). SAM 3 "
            "finds them by WORDS alone."
        ),
    ] = None,
    output: Output = _FILES,
) -> None:
    """Rank the regions of an image by how well words fit them, or find regions by words.

    Use --window whole for words about places in the image, unless its regions are small.
    """
    templates = choose_templates(template or ("none",))
    settings.changed({"threshold": threshold})  # refuses what is no similarity
    if masks is not None and expression is not None:
        if like is not None:
            raise ConfigError("--like finds without MASKS and WORDS; leave them out.")
        if output != _FILES or threshold is not None or checkpoint is not None:
            raise ConfigError(
                "With MASKS regions are only ranked: leave out --threshold, --checkpoint, and what "
                "is about files (--out, --format, --overwrite)."
            )
        check_query(expression, templates)
        with open_job(image, Path(masks), settings, say) as job:
            model = load(job.settings)
            regions, finished = embedded(model, job, results)
        ranked = find(model, regions.embeddings, expression, templates)
        _print_matches(regions, ranked[:top], expression)
        if not finished:
            say_unfinished(regions, job)
        return
    if (masks is None) == (like is None):
        raise InputError("Say what to find: words, such as 'a red blood cell', or --like FILE.")
    from ..pipeline.finding import WORD, PlaneQuery, named, propose, search_plane, words_of

    if masks is not None:
        words_of(masks, templates, WORD if threshold is None else threshold)  # may refuse it
        if Path(masks).exists():
            raise InputError(f"{masks} is a file; add words that describe a region.")
    if like is None and (settings.only or settings.merge):
        raise ConfigError("--only and --merge go with MASKS or --like; leave them out.")
    if results is not None or settings.planes is not None:
        raise ConfigError("--results and --planes go with MASKS; leave them out.")
    wanted: Path | CheckpointSpec | None = None
    if checkpoint is None:
        wanted = on_disk(masks)
    if checkpoint not in (None, "none"):
        wanted = file_or_checkpoint(checkpoint, words=True)
    if not is_written("inversion.alpha"):
        settings = settings.changed({"inversion.alpha": 0.0})
    _held = output.begin(image, like, settings.model)  # until this function returns
    with open_plane(image, settings, say) as job:
        model = load(job.settings)
        if masks is not None:
            query = PlaneQuery(words=masks, templates=tuple(templates))
        else:
            assert like is not None
            query = PlaneQuery(example=partial(_example, job=job, image=image, like=like))
        sam = query.asked_of(_proposer(wanted, settings.device))
        least = threshold
        if least is None:
            least = query.usual_threshold(answered=bool(sam and sam.words))
        if masks is None:
            words = None
        else:
            words = words_of(masks, templates, least)
        plane = job.tasks[0]
        with following(_show) as bar:
            bar.show(STARTING)
            proposing = partial(propose, model, plane.source, settings, sam, plane.position)
            proposed = search_plane(model, query, proposing)
        fitting = proposed.above(least)
        say(fitting.how)
        if not len(fitting.regions):
            raise InputError(
                f"No region has a similarity of {least:g} or more; the most similar has "
                f"{proposed.hits[0].similarity:.2f}. Lower --threshold to get it."
            )
        done = replace(job, tasks=[replace(job.tasks[0], regions=fitting.regions)])
        if words is not None and masks is not None:
            done = replace(done, source={**job.source, "query": masks})
            bundle = done.bundle(named(fitting, model, words, masks).results)
        else:
            about = {"like": str(like), "threshold": least}
            done = replace(done, source={**job.source, **about})
            columns = {"similarity": fitting.similarities.tolist()}
            bundle = replace(done.bundle(fitting.results), columns=columns)
        written = output.write(bundle)
    matches = proposed.matches[: min(top, len(fitting.regions))]
    _print_matches(fitting.results, matches, masks or f"like {like}")
    say(written)


def _show(bar: ProgressBar, news: Any) -> None:
    if hasattr(news, "text"):  # finished regions have none
        bar.show(news.text, news.fraction)
        bar.say_note(getattr(news, "note", ""))


def _proposer(wanted: Path | CheckpointSpec | None, device: str) -> Segmenter | Concepts | None:
    """Load the SAM that was named, or one on this machine; None without any."""
    if wanted is None:
        return None
    from ..regions.sam.sam_loading import load_proposer

    if isinstance(wanted, Path):
        path = wanted
    else:
        path = fetch_sam(wanted)
    return load_proposer(path, device)


def _example(model: Backbone, job: Job, image: Path, like: Path) -> FloatArray:
    """Embed the examples in a file, or take the embeddings of an archive."""
    from ..pipeline.finding import example_of, unit

    if like.suffix.lower() != ".npz":
        with open_job(image, like, job.settings, say) as examples:
            task = examples.tasks[0]
            return example_of(model, task.source, task.regions, job.settings)
    earlier = open_archive(like).results
    if earlier.info.fingerprint != model.fingerprint or earlier.info.method != job.settings.method:
        raise InputError(
            f"{like} has embeddings of {earlier.info.model} by {earlier.info.method.name}; use the "
            "same model and method."
        )
    wanted = job.settings.only_ids
    rows = []
    for row, region_id in enumerate(earlier.ids):
        if wanted is None or region_id in wanted:
            rows.append(row)
    if not rows:
        raise InputError(f"There is no region {job.settings.only} in {like}.")
    return unit(earlier.embeddings[rows].mean(0))


def _print_matches(results: Results, ranked: Sequence[RegionMatch], expression: str) -> None:
    title = f"{expression} ({results.count_text}, model {results.info.model})"
    columns = ("place", "region", *results.info.axes, "similarity", "margin")
    rows = []
    for place, match in enumerate(ranked, 1):
        region = results.regions[match.row]
        position = dict(region.position)
        axes = (str(position.get(axis, "")) for axis in results.info.axes)
        if math.isnan(match.margin):
            margin = ""
        else:
            margin = f"{match.margin:.3f}"
        status = replace(region, ranking=None).status  # those of an earlier run have one
        rows.append((str(place), str(region.id), *axes, f"{match.similarity:.3f}", margin, status))
    print_table((*columns, "status"), rows, title, right=columns)
