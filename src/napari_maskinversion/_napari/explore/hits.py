"""Hits of a search: where nobody drew regions, with threshold and outlines; and on any image."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QIcon
from qtpy.QtWidgets import QListWidget, QListWidgetItem, QWidget
from superqt import QLabeledDoubleSlider

from ...language.ranking.query import label_of
from ...library.searching import short_names
from ..session import Session
from ..widgets.controls import pixmap_of
from ..widgets.sections import button, form, pause, stack
from ..workers.notify import refusing
from .find_across import FarHit
from .find_anywhere import Anywhere, HitsLayer, make_regions
from .region_sources import open_region
from .work_section import Shared

_SIDE: Final = 48  # pixels of a picture
_SHOWN: Final = 5  # hits in view
_QUIET: Final = 60  # milliseconds without a change of the threshold


class HitsRow(QWidget):
    """How similar hits have to be, and what makes them regions; hidden without hits."""

    changed = Signal(int)  # Hits that are similar enough
    made = Signal(int, int)  # Regions, and hits that lie on others

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._viewer, self._session = shared.viewer, shared.session
        self._layer = HitsLayer(shared.viewer)
        self._shown: tuple[Anywhere, Any] | None = None
        self._pause = pause(self, _QUIET, self._draw)
        self.threshold = QLabeledDoubleSlider(Qt.Orientation.Horizontal)
        self.threshold.setDecimals(2)
        self.threshold.setSingleStep(0.01)
        self.threshold.setToolTip("Show the regions that are at least so similar")
        tip = "Add the outlined regions to the image's regions; Ctrl+Z on their layer undoes it"
        self.make = button("", tip, self._make)
        stack(self, form([("Similarity", self.threshold), self.make]))
        self.threshold.valueChanged.connect(lambda _: self._pause.start())
        self.threshold.valueChanged.connect(lambda _: self._cut())
        self.hide()

    def show_hits(self, answer: Anywhere, image: Any) -> None:
        """Show the hits of a search, cut at the usual threshold."""
        self._shown = answer, image
        values = answer.hits.similarities
        self.threshold.blockSignals(True)
        low, high = (math.floor(100 * float(value)) / 100 for value in (values.min(), values.max()))
        self.threshold.setRange(low, max(high, answer.usual))
        self.threshold.setValue(answer.usual)
        self.threshold.blockSignals(False)
        self._layer.show(image, answer.search.plane, answer.hits.regions)
        self._draw()
        self.show()
        self._cut()

    def clear(self) -> None:
        """Show no hits."""
        self._shown = None
        self._pause.stop()
        self._layer.remove()
        self.hide()

    def display(self, visible: bool) -> None:
        """Show or hide the outlines."""
        if self._layer.layer is not None:
            self._layer.layer.visible = visible

    @property
    def _count(self) -> int:
        return 0 if self._shown is None else self._shown[0].count(self.threshold.value())

    def _draw(self) -> None:
        self._layer.cut(self._count)

    def _cut(self) -> None:
        if self._shown is None:
            return
        count = self._count
        self.make.setText(f"Make {count:,} region{'s' * (count != 1)}")
        self.make.setEnabled(count > 0)
        self.changed.emit(count)

    def _make(self) -> None:
        if self._shown is None:
            return
        answer, image = self._shown
        hits, words = answer.hits.regions[: self._count], label_of(answer.search.words)
        regions = [replace(region, name=words) for region in hits]
        with refusing():
            made = make_regions(self._viewer, self._session, image, answer.search.plane, regions)
            self.made.emit(made, len(regions) - made)


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
