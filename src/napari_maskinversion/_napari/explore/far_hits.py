"""Hits on any image: a list with pictures; a click opens the region on its image."""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import QSize, Qt
from qtpy.QtGui import QIcon
from qtpy.QtWidgets import QListWidget, QListWidgetItem

from ...library.searching import short_names
from ..session import Session
from ..widgets.controls import pixmap_of
from .find_across import FarHit
from .region_sources import open_region

_SIDE: Final = 48  # pixels of a picture
_SHOWN: Final = 5  # hits in view


class FarHitsList(QListWidget):
    """The hits of the last search; hidden without any."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.hits: tuple[FarHit, ...] = ()
        self.setAccessibleName("Regions found on all images")
        self.setToolTip("A click, or Return, opens the region on its image")
        self.setIconSize(QSize(_SIDE, _SIDE))
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.itemClicked.connect(self._open)
        self.itemActivated.connect(self._open)
        self.show_hits(())

    def show_hits(self, hits: tuple[FarHit, ...]) -> None:
        """Show hits, best first."""
        self.hits = hits
        self.clear()
        names = short_names(hit.place.image for hit in hits)
        for hit in hits:
            image = names[hit.place.image]
            what = f"{hit.similarity:.2f} {hit.label}".rstrip()
            item = QListWidgetItem(_icon(hit), f"{image}\nregion {hit.place.region}, {what}")
            item.setSizeHint(QSize(0, _SIDE + 6))
            self.addItem(item)
        self.setFixedHeight(min(len(hits), _SHOWN) * (_SIDE + 6) + 4)
        self.setVisible(bool(hits))

    def _open(self, item: QListWidgetItem) -> None:
        open_region(self._session, self.hits[self.row(item)].place)


def _icon(hit: FarHit) -> QIcon:
    if hit.picture is None:
        return QIcon()
    icon, pixmap = QIcon(), pixmap_of(hit.picture)
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):  # Qt would tint the selected one
        icon.addPixmap(pixmap, mode)
    return icon
