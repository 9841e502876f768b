"""A closer look at results: why, compare, find, gallery, map, captions, pictures."""

from typing import Any

TAB = "explore"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    from ..widgets.sections import one_at_a_time

    parts = (
        *(panel.why, panel.compare, panel.finder, panel.gallery),
        *(panel.map, panel.captions, panel.imagine),
    )
    return one_at_a_time(*(part.section for part in parts))
