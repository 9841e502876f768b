"""What follows a session: the base class of the parts of the panel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from psygnal import SignalInstance

from .session import Session


class Topic:
    """A part of the panel that follows the session, which outlives it.

    A subclass has `bind`, which connects it by `after` each time the panel is docked; `stop` lets
    go of all this.
    """

    _session: Session

    @cached_property
    def _bindings(self) -> list[tuple[SignalInstance, Callable[..., object]]]:
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

    def after(self, slot: Callable[..., object], *signals: SignalInstance) -> None:
        """Call a function after each emission of some signals of the session's models."""
        for signal in signals:
            signal.connect(slot)
            self._bindings.append((signal, slot))

    def _let_go(self) -> None:
        for signal, slot in self._bindings:
            signal.disconnect(slot, missing_ok=True)
        self._bindings.clear()
