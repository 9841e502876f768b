"""What commands run under a progress bar: downloads of models, and embedding regions.

An earlier run may bring the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.progress import DownloadColumn

from ..base.errors import InputError, NotEnoughMemoryError
from ..base.progress import BYTES, Tick, listening
from ..base.progress_words import STARTING, fetching
from ..images.known_images import unknown_image_note
from ..images.plane_source import brightness_note
from ..language.captions.bank import CaptionBank
from ..language.labels.presets import taught_by, unknown_words_note
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.caption_ranking import add_captions
from ..pipeline.estimate import estimate, place_text
from ..pipeline.job import Job
from ..pipeline.run_progress import Progress, RegionChunk
from ..results.export.archive import open_archive
from .console import INTERRUPTED, ProgressBar, say

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..language.generation.decoder import CaptionDecoder
    from ..pipeline.caption_ranking import CaptionRequest
    from ..regions.sam.sam_checkpoints import CheckpointSpec
    from ..results.results import Results
    from ..results.settings import RunSettings


Loaded = TypeVar("Loaded")


def load(settings: RunSettings) -> Backbone:
    """Load the model of settings, and download it first if necessary."""
    from ..engine.models.loading import load_where_it_fits

    name = settings.model
    architecture = settings.architecture
    device = settings.device
    loaded = _downloading(
        name,
        lambda: _describe_model(name),
        lambda: load_where_it_fits(name, device=device, architecture=architecture),
    )
    if loaded.note:
        say(loaded.note)
    return loaded.model


def fetch_model(name: str) -> Path:
    """Download the weights of a model; Ctrl-C ends the program."""
    from ..engine.models.registry import fetch

    return _stoppable(name, lambda: _describe_model(name), lambda: fetch(name))


def fetch_sam(spec: CheckpointSpec) -> Path:
    """Download a checkpoint of SAM; Ctrl-C ends the program."""
    from ..regions.sam.sam_checkpoints import fetch_checkpoint

    about = fetching(spec.file, spec.size_text, spec.license)
    return _stoppable(spec.file, lambda: about, lambda: fetch_checkpoint(spec))


def load_captioner(request: CaptionRequest, model: Backbone) -> CaptionDecoder:
    """Load a decoder of captions for a model, and download it first if necessary."""
    from ..language.generation.registry import get_decoder

    spec = get_decoder(request.decoder)
    about = fetching(spec.name, spec.size_text, spec.license)
    return _stoppable(spec.name, lambda: about, lambda: request.load(model, model.device))


def _downloading(name: str, describe: Callable[[], str], work: Callable[[], Loaded]) -> Loaded:
    with ProgressBar(DownloadColumn()) as bar:

        def report(news: Tick) -> None:
            if news.stage == BYTES:
                if not bar.shown:
                    say(describe())
                bar.show(name, news.done, news.total)

        with listening(report):
            return work()


def _stoppable(name: str, describe: Callable[[], str], work: Callable[[], Loaded]) -> Loaded:
    try:
        return _downloading(name, describe, work)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _describe_model(name: str) -> str:
    from ..engine.models.registry import get_spec

    spec = get_spec(name)
    about = fetching(spec.name, spec.size_text, spec.license)
    return f"{about}, trained at {spec.native_resolution} px, used at {spec.working_resolution} px"


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
        native=model.native_resolution if settings.uses_native_windows else None,
    )
    unknown = ""
    if words is not None and words.learned is None:
        unknown = unknown_words_note(words.full_labels, taught_by(model))
    notes = [
        size.text,
        place_text(str(model.device)),
        f"{unknown}." if unknown else "",
        unknown_image_note(job.tasks[0].source, model),
        brightness_note(job.tasks[0].source),
    ]
    work = partial(job.run, model, words, bank)
    results, finished = _follow(work, "\n".join(filter(None, notes)))
    if results is None:
        say("Stopped before the first regions were finished; nothing was written.")
        raise typer.Exit(INTERRUPTED)
    if bank is not None and not finished:
        results = add_captions(results, bank, model, settings.top_captions)
    return results.in_order(), finished


def _follow(work: Callable[[], Results], size: str) -> tuple[Results | None, bool]:
    """Run the pipeline under a progress bar; Ctrl-C and full memory keep what is finished."""
    results: Results | None = None
    has_begun = False

    def show(news: Progress | RegionChunk) -> None:
        nonlocal results, has_begun
        if not has_begun:  # bad input was refused before
            bar.say_note(size)
        has_begun = True
        if isinstance(news, RegionChunk):
            results = news.so_far
        else:
            bar.say_note(news.note)
            bar.show(news.text, news.fraction)

    with ProgressBar() as bar, listening(show):
        bar.show(STARTING)
        try:
            return work(), True
        except KeyboardInterrupt:
            return results, False
        except NotEnoughMemoryError as error:
            if results is None:
                raise
            say(str(error))
            return results, False


def embedded(model: Backbone, job: Job, earlier: Path | None) -> tuple[Results, bool]:
    """Return the regions of a job without labels, and whether they are all.

    Those of an earlier ``run --format npz`` are taken, if a run would compute the same now.
    """
    if earlier is None:
        return invert(model, job)
    bundle = open_archive(earlier)
    if different := bundle.recipe.differences(job.recipe(model)):
        texts = ", ".join(difference.text for difference in different)
        raise InputError(
            f"{earlier} cannot be used again, it has {texts}; leave --results out, or write it "
            "again by run --format npz with the same options."
        )
    return bundle.results, True


def say_unfinished(results: Results, job: Job) -> None:
    """Say how many regions were finished when the user stopped, and end the program."""
    count = sum(len(task.regions) for task in job.tasks)
    say(f"Stopped: {len(results)} of {count} regions were finished and are kept.")
    raise typer.Exit(INTERRUPTED)
