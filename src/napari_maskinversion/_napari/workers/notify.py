"""Messages to the user, in napari's notifications."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from napari.utils.notifications import notification_manager, show_error, show_info

from ...base.errors import MaskInversionError


def refuse(message: str) -> None:
    """Show why something cannot be done and what to do instead."""
    show_error(message)


@contextmanager
def refusing() -> Iterator[None]:
    """Show errors that the user can act on, and leave the block."""
    try:
        yield
    except MaskInversionError as error:
        refuse(str(error))


def inform(message: str) -> None:
    """Show what was done."""
    show_info(message)


def report(error: BaseException) -> None:
    """Show an unexpected error with its traceback, for a bug report."""
    notification_manager.receive_error(type(error), error, error.__traceback__)
