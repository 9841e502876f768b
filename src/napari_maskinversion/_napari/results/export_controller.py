"""Results in the formats of other programs, and results that were saved, opened again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QFileDialog, QHBoxLayout, QMessageBox, QPushButton, QWidget

from ...base.errors import InputError, MaskInversionError
from ...results.export.bundle import Bundle, compress_masks
from ..layers.layers import levels_of
from ..workers.calls import CallQueue, Calls
from ..workers.notify import inform, refuse
from .reopening import Reopened, open_results, show_reopened

if TYPE_CHECKING:
    from ...results.export.export_format import ExportFormat

_OWN: tuple[str, ...] = ("npy", "csv", "json")  # the table's own entries of the menu


class ExportWidget(QWidget):
    """What stands below the table, whether there are results or not."""

    def __init__(self) -> None:
        super().__init__()
        self.open = QPushButton("Open results...")
        self.open.setToolTip("Open a results.npz again: table, heatmaps, regions and decisions")
        self.open.setAccessibleName("Open results")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(6, 0, 2, 0)
        layout.addStretch(1)
        layout.addWidget(self.open)


class ExportController(QObject):
    """Writes and reads results in workers.

    Parameters
    ----------
    viewer : napari.Viewer
    panel : MaskInversionWidget
    """

    def __init__(self, viewer: Any, panel: Any) -> None:
        super().__init__(panel)
        self._viewer, self._panel = viewer, panel
        self.part = ExportWidget()
        self.saving, self.opening = CallQueue(self), Calls(self)
        self.saving.done.connect(inform)
        self.saving.failed.connect(lambda reason: refuse(f"Could not export: {reason}"))
        self.opening.done.connect(self._opened)
        self.opening.failed.connect(refuse)
        self.part.open.clicked.connect(self.ask_results)
        self._fill_menu()

    def _fill_menu(self) -> None:
        from ...results.export.catalogue import FORMATS

        menu = self._panel.results.export.menu()
        menu.addSeparator()
        for entry in FORMATS.values():
            if entry.name not in _OWN:
                menu.addAction(f"{entry.title}...", partial(self.ask, entry))
        menu.addSeparator()
        menu.addAction("Into the regions' layer", self.to_features)

    def stop(self) -> None:
        """Let go of what is still being written or read; files are whole or not there."""
        self.saving.abandon()
        self.opening.abandon()

    # -- out ----------------------------------------------------------------------------------

    def ask(self, entry: ExportFormat) -> None:
        """Ask for a file's place, and before one that is there is replaced; then write it."""
        path, _ = QFileDialog.getSaveFileName(
            self.part,
            "Export",
            entry.file,
            f"*{entry.suffix}",
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if not path:
            return
        place = Path(path if path.endswith(entry.suffix) else path + entry.suffix)
        existing = [file for file in entry.files(place) if file.exists()]
        if existing and not self._may_replace(existing):
            return
        self.save(entry, place)

    def save(self, entry: ExportFormat, path: Path) -> None:
        """Write what the table shows, after what is being written; says of each how it ended."""
        try:
            work = self._bundle()
        except MaskInversionError as error:
            refuse(str(error))
            return
        names = ", ".join(file.name for file in entry.files(path))

        def write() -> str:
            entry.write(work(), path)
            return f"Saved {names} in {path.parent}"

        self.saving.start(write)

    def _bundle(self) -> Callable[[], Bundle]:
        """Take what is shown; the rest is made in the worker."""
        table, review = self._panel.results, self._panel.review
        results = table.results
        if results is None or not len(results):
            raise InputError("There is nothing to export yet; press Run first.")
        run_results, masks = table.run_masks
        if (
            run_results is None
            or len(run_results) < len(results)
            or not _same(run_results, results)
        ):
            masks = {}
        state, image = review.state, self._panel.canvas.image
        given = Bundle(
            results=results,
            source=dict(table.source),
            columns=table.more_columns(),
            records=table.more_records() or (),
            decisions=b"" if state is None else state.review.saved(),
        )
        name, pixels = ("", None) if image is None else (image.name, levels_of(image)[0])

        def complete() -> Bundle:
            from ...base.identity import identify_image

            about = {} if pixels is None else asdict(identify_image(name, pixels))
            packed = masks if isinstance(masks, dict) else compress_masks(masks)
            return replace(given, masks=packed, image=about)

        return complete

    def to_features(self) -> None:
        """Write suggestions into the features of the regions' layer, beside the user's columns."""
        from .result_features import write_features

        results, target = self._panel.results.results, self._panel.review.keeper.target
        if results is None or target is None:
            refuse("There is nothing to export yet; press Run first.")
            return
        layer = target.layer.layer
        if target.layer.moved or layer not in self._viewer.layers:
            refuse(f"Layer '{layer.name}' is not as it was during the run; run again.")
            return
        columns = write_features(layer, results)
        inform(f"'{layer.name}' has the columns {', '.join(columns)} now.")

    def _may_replace(self, existing: list[Path]) -> bool:
        answer = QMessageBox.question(
            self.part,
            "Replace files?",
            f"{existing[0].parent} already has {', '.join(path.name for path in existing)}. "
            "Replace?",
        )
        return bool(answer == QMessageBox.StandardButton.Yes)

    # -- back ---------------------------------------------------------------------------------

    def ask_results(self) -> None:
        """Ask for a file of results and open it."""
        path, _ = QFileDialog.getOpenFileName(
            self.part, "Open results", "", "Results (*.npz);;All files (*)"
        )
        if path:
            self.open_file(Path(path))

    def open_file(self, path: Path) -> None:
        """Open results on the image that is chosen."""
        image = self._panel.input.image.layer
        if self._panel.runner.running:
            refuse("Wait until the run is over, or cancel it; then open results.")
            return
        if image is None:
            refuse("Open the image first that the results belong to.")
            return
        try:
            pixels = levels_of(image)[0]
        except InputError as error:
            refuse(str(error))
            return
        self.opening.start(partial(open_results, path, image, pixels))

    def _opened(self, found: Reopened) -> None:
        try:
            said = show_reopened(self._viewer, self._panel, found)
        except MaskInversionError as error:
            refuse(str(error))
            return
        inform(said)


def _same(one: Any, other: Any) -> bool:
    pairs = zip(one.regions, other.regions, strict=False)
    return all(a.embedding is b.embedding for a, b in pairs)
