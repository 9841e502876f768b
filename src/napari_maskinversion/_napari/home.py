"""What the panel does beside its sections: keys, and being opened at one of them."""

from __future__ import annotations

from qtpy.QtCore import QObject, QTimer
from qtpy.QtWidgets import QScrollArea, QWidget

from .home_part import HomePart
from .keys_dialog import KeysDialog
from .sections import Section

# A scroll area needs its new heights before it can bring something into sight.
_LAID_OUT = 60


class Home(QObject):
    """Belongs to one panel.

    Parameters
    ----------
    panel : QWidget

    Attributes
    ----------
    part : HomePart
    """

    def __init__(self, panel: QWidget) -> None:
        super().__init__(panel)
        self._panel = panel
        self.keys: KeysDialog | None = None
        self.part = HomePart(panel)
        self._revealed: Section | None = None
        self._scroll = QTimer(self)
        self._scroll.setSingleShot(True)
        self._scroll.setInterval(_LAID_OUT)
        self._scroll.timeout.connect(self._scroll_there)
        self.part.keys.clicked.connect(self.show_keys)

    def show_keys(self) -> None:
        """Show the list of keys, beside the work."""
        if self.keys is None:
            self.keys = KeysDialog(self._panel)
        self.keys.show()
        self.keys.raise_()

    def reveal(self, title: str) -> Section | None:
        """Open the section whose title ends so, with those it lies in, and bring it into sight."""
        found = [s for s in self._panel.findChildren(Section) if s.title.endswith(title)]
        if not found:
            return None
        section = found[0]
        around: QWidget | None = section
        while around is not None and around is not self._panel:
            if isinstance(around, Section):
                around.open()
            around = around.parentWidget()
        section.toggleButton().setFocus()
        self._revealed = section
        self._scroll.start()
        return section

    def _scroll_there(self) -> None:
        section, self._revealed = self._revealed, None
        around: QWidget | None = section
        while around is not None and not isinstance(around, QScrollArea):
            around = around.parentWidget()
        if section is not None and around is not None:
            top = section.mapTo(around.widget(), section.rect().topLeft()).y()
            around.verticalScrollBar().setValue(top)
