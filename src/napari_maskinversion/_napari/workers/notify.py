"""Messages to the user, as napari shows them."""

from __future__ import annotations

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
