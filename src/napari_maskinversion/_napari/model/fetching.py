"""Fetching a model's weights: what happens between the model part and the download."""

from __future__ import annotations

from ..run.runner import Fetcher
from ..workers.notify import inform, refuse
from .model_widget import ModelWidget


def connect_fetching(model: ModelWidget, fetcher: Fetcher) -> None:
    """Let the model part start and cancel downloads, and show how they go."""

    def begin(name: str) -> None:
        model.show_fetch((0, 0))
        fetcher.start(name)

    def end() -> None:
        model.show_fetch(None)
        model.fill()

    model.fetch_requested.connect(begin)
    model.fetch_cancelled.connect(fetcher.cancel)
    fetcher.progressed.connect(lambda done, total: model.show_fetch((int(done), int(total))))
    fetcher.fetched.connect(lambda name: inform(f"{name} is on this machine now."))
    fetcher.failed.connect(refuse)
    fetcher.ended.connect(end)
