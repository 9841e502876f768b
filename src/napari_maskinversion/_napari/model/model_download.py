"""Downloads of models."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QObject

from ...engine.models.registry import model_state, unread_spec
from ..run_requests.fetching import Fetching
from ..session import Session
from ..workers.notify import inform
from .model_widget import ModelWidget


class ModelDownload(Fetching):
    """Downloads one model at a time, and chooses it."""

    def __init__(self, session: Session, part: ModelWidget, parent: QObject) -> None:
        super().__init__(session, part, parent)
        self.fetched.connect(self._choose)

    @staticmethod
    def fetch(name: str, **how: Any) -> None:
        """Download a model's weights."""
        from ...engine.models.weights_download import fetch

        fetch(name, **how)

    def choose(self, name: str) -> None:
        """Choose a model; one that is not on this machine is downloaded before."""
        if model_state(unread_spec(name)) == "to fetch":
            self.start(name)
        else:
            self._part.choose(name)

    def _choose(self, name: str) -> None:
        self._part.choose(name)
        inform(f"{name} is now on this machine, and chosen.")
