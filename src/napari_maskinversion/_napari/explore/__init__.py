"""A closer look at results: why, compare, captions, find by words, pictures of an embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TAB = "explore"


def content(panel: Any) -> QWidget:
    """Return the content of the tab."""
    from ..widgets.sections import one_at_a_time

    return one_at_a_time(
        *panel.details.sections,
        panel.finder.section,
        panel.captions.section,
        panel.imagine.section,
    )
