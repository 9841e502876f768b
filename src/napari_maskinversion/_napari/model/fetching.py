"""Downloads of a model's weights."""

from __future__ import annotations

from functools import partial

from ..workers.driver import show_bytes, stop_requested
from ..workers.notify import inform, refuse
from ..workers.worker import Worker
from .model_widget import ModelWidget


def connect_fetching(model: ModelWidget, fetcher: Worker) -> None:
    """Let the model widget start, cancel and show downloads."""

    def begin(name: str) -> None:
        model.show_fetch((0, 0))
        fetcher.start(partial(fetch_model, name))

    def end() -> None:
        model.show_fetch(None)
        model.fill()

    model.fetch_requested.connect(begin)
    model.fetch_cancelled.connect(fetcher.cancel)
    fetcher.progressed.connect(model.show_fetch)
    fetcher.done.connect(lambda name: inform(f"{name} is now on this machine."))
    fetcher.failed.connect(refuse)
    fetcher.ended.connect(end)


def fetch_model(name: str) -> str:
    """Download a model's weights; a task for a `Worker` that shows (bytes, total)."""
    from ...engine.models.weights_download import fetch

    fetch(name, on_progress=show_bytes, cancelled=stop_requested)
    return name
