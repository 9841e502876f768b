"""The base class of what follows the session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from .session import Session
from .state import Ask, Asked


class Topic:
    """A part of the panel that follows the session, which outlives it.

    A subclass has `bind`, which connects it by `after` and `answer` each time the panel is docked;
    `stop` lets go of all this.
    """

    _session: Session

    @cached_property
    def _bindings(self) -> list[tuple[Any, Callable[..., object]]]:
        return []

    def bind(self) -> None:
        """Connect to the session, and show what it has."""
        raise NotImplementedError

    def follow(self) -> None:
        """Follow the session."""
        self._let_go()
        self.bind()

    def stop(self) -> None:
        """Follow the session no more."""
        self._let_go()

    def after(self, names: str, slot: Callable[..., object]) -> None:
        """Call a function after each of some events of the session: ``"image settings"``."""
        for name in names.split():
            signal = self._session.events[name]
            signal.connect(slot)
            self._bindings.append((signal, slot))

    def answer(self, what: Ask, slot: Callable[[Any], object]) -> None:
        """Call a function with the value of each request of a kind."""

        def called(asked: Asked | None) -> None:
            if asked is not None and asked.what == what:
                slot(asked.value)

        self.after("asked", called)

    def _let_go(self) -> None:
        for signal, slot in self._bindings:
            signal.disconnect(slot, missing_ok=True)
        self._bindings.clear()
