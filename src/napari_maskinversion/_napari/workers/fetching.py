"""Downloads of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .driver import show_bytes, stop_requested
from .notify import inform, refuse
from .worker import Worker


def connect_fetching(part: Any, fetcher: Worker, fetch: Callable[..., str]) -> None:
    """Let a `FetchRow` start, cancel and show downloads.

    Parameters
    ----------
    part : QWidget
        Has the row as ``fetching``, and ``spec``, ``show_fetch`` and ``fill``.
    fetcher : Worker
    fetch : callable
        Takes the name of ``spec``, ``on_progress`` and ``cancelled``; returns what was fetched.
    """

    def begin() -> None:
        part.show_fetch((0, 0))
        how = {"on_progress": show_bytes, "cancelled": stop_requested}
        fetcher.start(partial(fetch, part.spec.name, **how))

    part.fetching.button.clicked.connect(begin)
    part.fetching.cancel.clicked.connect(fetcher.cancel)
    fetcher.progressed.connect(part.show_fetch)
    fetcher.done.connect(lambda what: inform(f"{what} is now on this machine."))
    fetcher.failed.connect(refuse)
    fetcher.ended.connect(part.fill)
