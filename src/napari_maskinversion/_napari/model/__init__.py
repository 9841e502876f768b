"""Choice of model, method and explainability map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .model_widget import ModelWidget


class ModelPanel(Protocol):
    """What this topic needs of the panel."""

    model: ModelWidget


def pages(panel: ModelPanel) -> dict[str, QWidget]:
    """Return the pages of the settings."""
    return {"Model": panel.model, "Method": panel.model.how}
