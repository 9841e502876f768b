"""Models and checkpoints, downloaded under a progress bar if they are not on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.progress import DownloadColumn

from ..base.progress import BYTES, Tick, listening
from ..base.progress_words import fetching
from .console import INTERRUPTED, ProgressBar, say

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..language.generation.decoder import CaptionDecoder
    from ..pipeline.captions import CaptionRequest
    from ..regions.sam.checkpoints import CheckpointSpec

Loaded = TypeVar("Loaded")


def load(name: str, architecture: str | None, device: str) -> Backbone:
    """Load a model, and download it first if necessary."""
    from ..engine.models.loading import load_where_it_fits

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
    from ..engine.models.weights_download import fetch

    return _stoppable(name, lambda: _describe_model(name), lambda: fetch(name))


def fetch_sam(spec: CheckpointSpec) -> Path:
    """Download a checkpoint of SAM; Ctrl-C ends the program."""
    from ..regions.sam.checkpoints import fetch_checkpoint

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
