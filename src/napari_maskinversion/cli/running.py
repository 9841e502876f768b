"""Regions inverted under a progress bar, for the commands that do so."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import typer

from ..base.errors import NotEnoughMemoryError
from ..base.progress_words import STARTING
from ..base.steps import Steps
from ..images.known_images import unknown_image_note
from ..language.captions.bank import CaptionBank
from ..language.labels.known_words import taught_by, unknown_words_note
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.captions.from_bank import add_captions
from ..pipeline.estimate import estimate, place_text
from ..pipeline.job import Job
from ..pipeline.progress import RegionChunk
from .console import INTERRUPTED, ProgressBar, say

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.results import Results


def invert(
    model: Backbone, job: Job, words: Vocabulary | None = None, bank: CaptionBank | None = None
) -> tuple[Results, bool]:
    """Return the results of a job, and whether they are of all regions.

    Ctrl-C keeps the chunks that are finished; before the first of them it ends the program.
    """
    settings = job.settings
    if job.notes:
        say(job.notes)
    size = estimate(
        job.tasks,
        model=model.name,
        device=str(model.device),
        resolution=settings.resolution or model.working_resolution,
        patch=model.patch_size,
        config=settings.inversion,
        window=settings.window,
        method=settings.method,
    )
    unknown = unknown_words_note(() if words is None else words.full_labels, taught_by(model))
    notes = [
        size.text,
        place_text(str(model.device)),
        f"{unknown}." if unknown else "",
        unknown_image_note(job.tasks[0].source, model),
    ]
    results, finished = _follow(job.steps(model, words, bank), "\n".join(filter(None, notes)))
    if results is None:
        say("Stopped before the first regions were finished; nothing was written.")
        raise typer.Exit(INTERRUPTED)
    if bank is not None and not finished:
        results = add_captions(results, bank, model, settings.top_captions)
    return results.in_order(), finished


def _follow(work: Generator[Any, None, Results], size: str) -> tuple[Results | None, bool]:
    """Drive the pipeline under a progress bar; Ctrl-C and full memory keep what is finished."""
    results: Results | None = None
    with ProgressBar() as bar, Steps(work) as steps:
        bar.show(STARTING)
        try:
            for count, news in enumerate(steps):
                if not count:  # the first step raises the errors of bad input
                    bar.say_note(size)
                if isinstance(news, RegionChunk):
                    results = news.so_far
                else:
                    bar.say_note(news.note)
                    bar.show(news.text, news.fraction)
            return steps.result, True
        except KeyboardInterrupt:
            return results, False
        except NotEnoughMemoryError as error:
            if results is None:
                raise
            say(str(error))
            return results, False


def say_unfinished(results: Results, job: Job) -> None:
    """Say how many regions were finished when the user stopped, and end the program."""
    count = sum(len(task.regions) for task in job.tasks)
    say(f"Stopped: {len(results)} of {count} regions were finished and are kept.")
    raise typer.Exit(INTERRUPTED)
