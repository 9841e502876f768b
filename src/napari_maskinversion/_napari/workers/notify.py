"""Messages to the user, as napari shows them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from napari.utils.notifications import notification_manager, show_error, show_info


def refuse(message: str) -> None:
    """Say why something cannot be done, and what to do instead."""
    show_error(message)


def inform(message: str) -> None:
    """Say that something was done."""
    show_info(message)


def report(error: BaseException) -> None:
    """Show an error that nobody foresaw, with its traceback for a bug report."""
    notification_manager.receive_error(type(error), error, error.__traceback__)


def report_errors(worker: Any, listener: Callable[[BaseException], None] = report) -> None:
    """Let an error that nobody foresaw in a worker be told once.

    napari 0.9 listens too, with a function that takes no argument: PyQt bears with it, PySide ends
    in a second error. What it would note of the worker is overwritten at its end anyway.
    """
    with suppress(TypeError, RuntimeError):  # nobody listens yet
        worker.errored.disconnect()
    worker.errored.connect(listener)
