"""Choice of image and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .input_widget import InputWidget


class InputsPanel(Protocol):
    """What this topic needs of the panel."""

    input: InputWidget


def pages(panel: InputsPanel) -> dict[str, QWidget]:
    """Return the pages of the settings."""
    return {"Regions and windows": panel.input.scope}
