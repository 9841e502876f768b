"""Yes-or-no questions to the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qtpy.QtWidgets import QMessageBox, QWidget


def confirm(parent: QWidget, title: str, text: str) -> bool:
    """Ask a question; return whether the answer was yes."""
    answer = QMessageBox.question(parent, title, text)
    return bool(answer == QMessageBox.StandardButton.Yes)


def may_replace(parent: QWidget, paths: Sequence[Path]) -> bool:
    """Ask before replacing existing files of one folder; True if there are none."""
    existing = [path for path in paths if path.exists()]
    if not existing:
        return True
    names = ", ".join(path.name for path in existing)
    title = f"Replace file{'s' * (len(existing) > 1)}?"
    return confirm(parent, title, f"{existing[0].parent} already contains {names}. Replace?")
