"""Messages to the user: in the status line of the panel, or in napari's notifications without one.

napari cuts its notifications to a line; the panel shows them whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from napari.utils.notifications import notification_manager, show_error, show_info
from qtpy.compat import isalive
from qtpy.QtCore import QObject

from ...app.session.actions import Action
from ...base.errors import MaskInversionError

Severity = Literal["info", "warning", "error"]
# Takes text, severity and what a button beside it does; returns whether the user can see it.
Listener = Callable[[str, Severity, Action | None], bool]

_listeners: Final[list[Listener]] = []


def listen(listener: Listener) -> None:
    """Send messages to a panel from now on: the one used last gets them."""
    ignore(listener)
    _listeners.append(listener)


def ignore(listener: Listener) -> None:
    """Send no more messages to a panel."""
    if listener in _listeners:
        _listeners.remove(listener)


def refuse(message: str, action: Action | None = None) -> None:
    """Show why something cannot be done and what to do instead."""
    _tell(message, "error", action)


@contextmanager
def refusing() -> Iterator[None]:
    """Show errors that the user can act on, and leave the block."""
    try:
        yield
    except MaskInversionError as error:
        refuse(str(error))


def inform(message: str) -> None:
    """Show what was done."""
    _tell(message, "info", None)


def report(error: BaseException) -> None:
    """Show an unexpected error with its traceback, for a bug report."""
    listener = _listener()
    if listener is not None:
        listener(str(error), "error", None)
    notification_manager.receive_error(type(error), error, error.__traceback__)


def _tell(message: str, severity: Severity, action: Action | None) -> None:
    listener = _listener()
    if listener is None or not listener(message, severity, action):
        (show_info if severity == "info" else show_error)(message)


def _listener() -> Listener | None:
    """Return the panel used last, without those that Qt has deleted with their window."""
    while _listeners:
        owner = getattr(_listeners[-1], "__self__", None)
        if not isinstance(owner, QObject) or isalive(owner):
            return _listeners[-1]
        _listeners.pop()
    return None
