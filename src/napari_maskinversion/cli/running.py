"""Regions inverted under a progress bar, for the commands that do so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import typer

from ..base import progress_words as words
from ..base.errors import NotEnoughMemoryError
from ..base.progress import listening
from ..images.known_images import unknown_image_note
from ..language.captions.bank import CaptionBank
from ..language.labels.presets import taught_by, unknown_words_note
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.captions import add_captions
from ..pipeline.estimate import estimate, place_text
from ..pipeline.inputs import Inputs
from ..pipeline.run import Progress, RegionChunk, run_planes
from ..results.settings import RunSettings
from .console import INTERRUPTED, ProgressBar, say

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.results import Results


def invert(
    model: Backbone,
    inputs: Inputs,
    vocabulary: Vocabulary | None,
    settings: RunSettings,
    bank: CaptionBank | None = None,
) -> tuple[Results, bool]:
    """Invert the regions and close the image.

    Ctrl-C keeps the chunks that are finished; before the first of them it ends the program.
    """
    if inputs.notes:
        say(inputs.notes)
    size = estimate(
        inputs.tasks,
        model=model.name,
        device=str(model.device),
        resolution=settings.resolution or model.working_resolution,
        patch=model.patch_size,
        config=settings.inversion,
        window=settings.window,
        method=settings.method,
    )
    place = place_text(str(model.device))
    with inputs.stack:
        notes = [size.text, place, *_not_known(model, inputs, vocabulary)]
        work = partial(
            run_planes,
            model,
            inputs.tasks,
            vocabulary,
            settings,
            units=inputs.units,
            bank=bank,
        )
        results, finished = _follow(work, "\n".join(notes))
    if results is None:
        say("Stopped before the first regions were finished; nothing was written.")
        raise typer.Exit(INTERRUPTED)
    if bank is not None and not finished:
        results = add_captions(results, bank, model, settings.top_captions)
    return results.in_order(), finished


def _not_known(model: Backbone, inputs: Inputs, vocabulary: Vocabulary | None) -> list[str]:
    """Return a line about words, and one about the image, if the demo model does not know them."""
    labels = () if vocabulary is None else vocabulary.full_labels
    unknown = unknown_words_note(labels, taught_by(model))
    notes = [f"{unknown}." if unknown else "", unknown_image_note(inputs.tasks[0].source, model)]
    return [note for note in notes if note]


def _follow(work: Callable[[], Results], size: str) -> tuple[Results | None, bool]:
    """Run the pipeline under a progress bar; Ctrl-C and full memory keep what is finished."""
    results: Results | None = None
    begun = False

    def show(news: Progress | RegionChunk) -> None:
        nonlocal results, begun
        if not begun:  # bad input was refused before
            bar.say_note(size)
        begun = True
        if isinstance(news, RegionChunk):
            results = news.so_far
        else:
            bar.say_note(news.note)
            bar.show(news.text, news.fraction)

    with ProgressBar() as bar, listening(show):
        bar.show(words.STARTING)
        try:
            return work(), True
        except KeyboardInterrupt:
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
