"""A closer look at results: why, compare, find, gallery, map, captions, pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .captions_section import CaptionsSection
    from .compare import CompareSection
    from .find_section import FindSection
    from .gallery import Gallery
    from .imagine_section import ImagineSection
    from .map_window import MapSection
    from .why import WhySection

TAB = "explore"


class ExplorePanel(Protocol):
    """What this topic needs of the panel."""

    why: WhySection
    compare: CompareSection
    finder: FindSection
    gallery: Gallery
    map: MapSection
    captions: CaptionsSection
    imagine: ImagineSection


def content(panel: ExplorePanel) -> QWidget:
    """Return the content of the tab."""
    from ..widgets.sections import one_at_a_time

    parts = (
        *(panel.why, panel.compare, panel.finder, panel.gallery),
        *(panel.map, panel.captions, panel.imagine),
    )
    return one_at_a_time(*(part.section for part in parts))
