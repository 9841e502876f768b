"""Regions inverted under a progress bar, for the commands that do so."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from ..base import progress_words as words
from ..base.errors import NotEnoughMemoryError
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.windows import WindowConfig
from ..language.captions.bank import TOP, CaptionBank
from ..language.labels.vocabulary import Vocabulary
from ..language.ranking.uncertainty import UncertaintyConfig
from ..pipeline.captioning import add_captions
from ..pipeline.estimate import estimate
from ..pipeline.preflight import preflight
from ..pipeline.run import CHUNK, RegionChunk, run_planes
from .inputs import Inputs
from .models import INTERRUPTED, say

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.results import Results


def invert(
    model: Backbone,
    inputs: Inputs,
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    window: WindowConfig,
    *,
    chunk_size: int | None,
    resolution: int | None,
    square: bool,
    bank: CaptionBank | None = None,
    top_captions: int = TOP,
    unsure: UncertaintyConfig | None = None,
    method: Method | None = None,
) -> tuple[Results, bool]:
    """Invert the regions and close the image; give what is finished, and whether all is.

    Ctrl-C keeps the chunks that are finished; before the first of them it ends the program.
    """
    if inputs.notes:
        say(inputs.notes)
    size = estimate(
        inputs.tasks,
        model=model.name,
        device=str(model.device),
        resolution=resolution or model.working_resolution,
        patch=model.patch_size,
        config=config,
        window=window,
        method=method,
    )
    check = preflight(
        device=str(model.device),
        architecture=model.name if model.spec is None else model.spec.architecture,
        resolution=resolution or model.working_resolution,
        patch=model.patch_size,
        at_once=min(chunk_size or CHUNK, size.regions),
        layers=config.layers,
    )
    work = run_planes(
        model,
        inputs.tasks,
        vocabulary,
        config,
        chunk_size=chunk_size,
        resolution=resolution,
        keep_aspect=not square,
        window=window,
        units=inputs.units,
        bank=bank,
        top_captions=top_captions,
        unsure=unsure,
        method=method,
    )
    with inputs.stack:
        results, finished = _follow(work, f"{size.text}\n{check.text}")
    if results is None:
        say("Stopped before the first regions were finished; nothing was written.")
        raise typer.Exit(INTERRUPTED)
    if bank is not None and not finished:
        results = add_captions(results, bank, model, top_captions)
    return results.in_order(), finished


def _follow(work: Generator[Any, None, Results], size: str) -> tuple[Results | None, bool]:
    """Drive the pipeline under a progress bar; Ctrl-C and full memory keep what is finished."""
    results: Results | None = None
    note = ""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words.STARTING, total=1.0)
        try:
            first = next(work)  # whatever is refused is refused here
            bar.console.print(escape(size), highlight=False, soft_wrap=True)
            bar.update(task, description=first.text)
            while True:
                news = next(work)
                if isinstance(news, RegionChunk):
                    results = news.so_far
                    continue
                if news.note != note:
                    note = news.note
                    bar.console.print(escape(note), highlight=False, soft_wrap=True)
                bar.update(task, completed=news.fraction, description=news.text)
        except StopIteration as stop:
            return stop.value, True
        except KeyboardInterrupt:
            work.close()
            return results, False
        except NotEnoughMemoryError as error:
            if results is None:
                raise
            say(str(error))
            return results, False


def say_unfinished(results: Results, inputs: Inputs) -> None:
    """Say how many regions were finished when the user stopped, and end the program."""
    count = sum(len(task.regions) for task in inputs.tasks)
    say(f"Stopped: {len(results)} of {count} regions were finished and are kept.")
    raise typer.Exit(INTERRUPTED)
