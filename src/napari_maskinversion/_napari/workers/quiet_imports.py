"""Imports in a thread, without full garbage collections that would stop the window."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_users = 0
_was_enabled = True


@contextmanager
def without_collections() -> Iterator[None]:
    """Switch Python's garbage collector off meanwhile, and count what was made as old.

    Large libraries bring so many objects that Python looks through all objects of the process
    several times, with all threads stopped: 0.05 to 0.35 s each. Modules live as long as the
    process, so nothing is missed. `gc.freeze` and `gc.unfreeze` move the new objects to the oldest
    generation; otherwise the first collection afterwards would look through all of them.
    """
    global _users, _was_enabled
    with _lock:
        if _users == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _was_enabled:
                gc.freeze()
                gc.unfreeze()
                gc.enable()
