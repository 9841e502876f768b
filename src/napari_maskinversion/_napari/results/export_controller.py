"""Export of results, also into the features of the regions' layer, and opening of saved results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QMenu, QWidget

from ...app.layer_input.layer_facts import file_of, is_regions, levels_of
from ...app.layer_input.layer_features import ACCEPTED, withdraw
from ...app.layer_input.viewer_protocols import RegionsLayer
from ...app.session import Session, Topic, job_kinds, outdated, same_regions
from ...base.errors import InputError
from ...results.columns import columns_in
from ...results.export.bundle import Bundle, compress_masks
from ...review.reporting import decision_records
from ..widgets.dialogs import ask_file, ask_folder, ask_where, may_replace
from ..widgets.sections import button, check_box, check_entry, debouncer, line
from ..workers.notify import inform, refuse, refusing
from .reopening import Reopened, open_results, show_reopened

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from napari.components import ViewerModel

    from ...results.export.bundle import ExportFormat

_UNSAFE: Final = re.compile(r'[\\/:*?"<>|\x00-\x1f]+')  # in file names, on some system
_QUIET: Final = 500  # milliseconds after the last decision until the layer's features follow
_FIRST: Final = ("csv", "coco", "geojson", "masks", "npz")  # of the menu
_TOGETHER: Final = ("npy", "csv", "json")  # what is saved into a folder
_RENAMED: Final = {"probability": "confidence"}  # as the panel calls it


class ExportController(Topic, QObject):
    """Writes and opens results in workers."""

    def __init__(
        self, viewer: ViewerModel, session: Session, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        tip = "Open a results.npz again: table, heatmaps, regions and decisions"
        self.open = button("Open results...", tip, self.ask_results, name="Open results")
        tip = "Save embeddings, table, heatmaps, regions or the full record"
        self.export = button("Export...", tip)
        self.part = line(QWidget(), self.open, self.export, shares=(1, 0, 0))
        self.part.layout().setContentsMargins(6, 0, 2, 0)
        self.features = check_box(
            "Suggestions in the layer's features",
            "Other plugins read them there: label, roi_id, suggestion, confidence, decision. They "
            "follow every run and decision, and go when this is off; columns of your own stay.",
        )
        session.run.features = False  # as the box is; the session may be older
        self.features.toggled.connect(self._switch_features)
        self._features_later = debouncer(self, _QUIET, self._keep_features)
        self.saving = session.jobs.of(job_kinds.EXPORT)
        self.opening = session.jobs.of(job_kinds.OPEN_RESULTS)
        self._fill_menu()

    def _fill_menu(self) -> None:
        from ...results.export.catalogue import FORMATS

        menu, more = QMenu(self.part), QMenu("More formats", self.part)
        for name in _FIRST:
            menu.addAction(f"{FORMATS[name].title}...", partial(self.ask, FORMATS[name]))
        for name, entry in FORMATS.items():
            if name not in _FIRST:
                more.addAction(f"{entry.title}...", partial(self.ask, entry))
        more.addAction("Embeddings, table and record...", self.ask_folder)
        menu.addMenu(more)
        menu.addAction("Into the regions' layer", self.to_features)
        menu.addSeparator()
        self.accepted_only = check_entry(
            menu, "Accepted regions only", "Export only accepted regions"
        )
        self.polygons = check_entry(
            menu,
            "COCO as polygons",
            "For programs that cannot read run-length encoded masks of COCO",
        )
        self.export.setMenu(menu)

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        review = self._session.review.events
        explore = self._session.explore.events
        self.after(self._show, run.record)
        self.after(self.open_file, self._session.run.open_results)
        self.after(lambda: self.to_features(), self._session.run.write_features)
        self.after(
            self._changed, run.record, review.target, review.changes, run.features, explore.mapped
        )
        self._show()

    def _changed(self, _: object) -> None:
        if self._session.run.features:
            self._features_later.throttle()

    def _keep_features(self) -> None:
        if self._session.run.features:
            with suppress(InputError):  # these results have no layer, or not any more
                self._into_layer()

    def _switch_features(self, on: bool) -> None:
        self._session.run.features = on
        if on:
            return
        for layer in self._viewer.layers:
            if is_regions(layer):
                withdraw(layer, keep={ACCEPTED})

    def _show(self, _: object = None) -> None:
        self.export.setVisible(bool(self._session.run.results))

    def stop(self) -> None:
        """Write what waits for a pause, and follow the session no more."""
        super().stop()
        self._features_later.flush()

    # -- out ----------------------------------------------------------------------------------

    def ask_folder(self) -> None:
        """Ask for a folder and save embeddings, table and record there."""
        from ...results.export.catalogue import FORMATS

        if folder := ask_folder(self.part, "Export to folder"):
            entries = [FORMATS[name] for name in _TOGETHER]
            self._replace(*((entry, folder / self.name_of(entry)) for entry in entries))

    def ask(self, entry: ExportFormat) -> None:
        """Ask for a path and write one format there; refuse one whose packages are missing."""
        with refusing():
            entry.check()
            name, kinds = self.name_of(entry), f"*{entry.suffix}"
            path = ask_where(self.part, "Export", name, kinds, entry.suffix)
            if path is not None:
                self._replace((entry, path))

    def name_of(self, entry: ExportFormat) -> str:
        """Return a file name that two images do not share: ``cells_coco.json``."""
        record = self._session.run.record
        image = None if record is None else record.snapshot.image
        if image is None:
            return entry.file
        file = file_of(image)
        stem = str(image.name) if file is None else file.name.removesuffix(file.suffix)
        return f"{_UNSAFE.sub('_', stem).strip(' ._')}_{entry.file}".lstrip("_")

    def _replace(self, *targets: tuple[ExportFormat, Path]) -> None:
        if may_replace(self.part, _files(targets)):
            self.save(*targets)

    def save(self, *targets: tuple[ExportFormat, Path]) -> None:
        """Write what the table shows in a worker, after earlier exports; report how it ended."""

        def write(make_bundle: Callable[[], Bundle]) -> str:
            bundle = make_bundle()
            for entry, path in targets:
                entry.write(bundle, path)
            names = ", ".join(file.name for file in _files(targets))
            return f"Saved {names} in {targets[0][1].parent}"

        with refusing():
            self.saving.start(partial(write, self._bundle()), inform, failed=_cannot_export)

    def _bundle(self) -> Callable[[], Bundle]:
        """Return a function for the worker that makes the bundle of the results shown."""
        state, record = self._session.reviewed, self._session.run.record
        if record is None or not len(record.results):
            raise InputError("There is nothing to export yet; suggest words for the regions first.")
        review, columns = None, {}
        if state is not None:
            review, columns = state.review, state.columns()
        only_accepted = self.accepted_only.isChecked()
        rows_to_write = None
        if only_accepted:
            decisions = columns.get("decision", ())
            rows_to_write = [row for row, name in enumerate(decisions) if name == "accepted"]
        if why := outdated(self._session, rows_to_write):
            raise InputError(why)
        masks = record.masks or {}
        image = record.snapshot.image
        file = file_of(image)
        source = dict(record.source)
        if file is not None:
            source["image_file"] = file.name
        bundle = Bundle(
            results=record.results,
            source=source,
            columns=columns,
            records=[] if review is None else decision_records(record.results, review.decisions),
            decisions=b"" if review is None else review.saved(),
            polygons=self.polygons.isChecked(),
        )
        name, pixels = "", None
        if image is not None:
            name, pixels = image.name, levels_of(image)[0]

        def complete() -> Bundle:
            from ...base.identity import identify_image

            identity = bundle.image if pixels is None else identify_image(name, pixels)
            compressed = masks if isinstance(masks, dict) else compress_masks(masks)
            whole = replace(bundle, masks=compressed, image=identity)
            return whole.accepted() if only_accepted else whole

        return complete

    def to_features(self) -> None:
        """Write suggestions into the features of the regions' layer; the user's columns stay."""
        with refusing():
            layer, columns = self._into_layer()
            inform(f"'{layer.name}' now has the columns {', '.join(columns)}.")

    def _into_layer(self) -> tuple[RegionsLayer, list[str]]:
        """Write suggestions and decisions; return the layer, and the names of the columns."""
        record, target = self._session.run.record, self._session.review.target
        if record is None or target is None:
            raise InputError("There is nothing to export yet; suggest words for the regions first.")
        if target.results is not record.results:
            raise InputError(
                "These results belong to other regions; suggest words again, then export."
            )
        if target.layer not in self._viewer.layers:
            raise InputError(f"Layer '{target.layer.name}' is no longer there; run again.")
        if why := outdated(self._session):
            raise InputError(why)
        review = self._session.reviewed
        decisions = {} if review is None else review.labels()
        table = record.results.to_frame() if record.table is None else record.table
        places, mapped = None, self._session.explore.mapped
        if mapped is not None and same_regions(mapped.results, record.results):
            places = mapped.points
        columns = feature_columns(table, str(target.image.name), decisions, places)
        return target.layer, target.features.write(columns)

    # -- back ---------------------------------------------------------------------------------

    def ask_results(self) -> None:
        """Ask for a file of results and open it."""
        if path := ask_file(self.part, "Open results", "Results (*.npz);;All files (*)"):
            self.open_file(path)

    def open_file(self, path: Path) -> None:
        """Open results on the chosen image."""
        image = self._session.run.image
        if self._session.run.progress.running:
            refuse("Wait until the run is over, or cancel it; then open results.")
            return
        if image is None:
            refuse("First open the image that the results belong to.")
            return
        with refusing():
            work = partial(open_results, path, image, levels_of(image)[0])
            self.opening.start(work, self._opened)

    def _opened(self, reopened: Reopened) -> None:
        with refusing():
            inform(show_reopened(self._viewer, self._session, reopened))


def _cannot_export(reason: str) -> None:
    refuse(f"Could not export: {reason}")


def _files(targets: Iterable[tuple[ExportFormat, Path]]) -> list[Path]:
    files: list[Path] = []
    for entry, path in targets:
        files += entry.files(path)
    return files


def feature_columns(
    table: pd.DataFrame,
    image: str,
    decisions: Mapping[int, str],
    places: npt.NDArray[np.floating] | None = None,
) -> pd.DataFrame:
    """Return what a table of results says about each region, for the features of a layer.

    Other plugins find a region by ``label`` (its number) and ``roi_id`` (the image). A label on
    several planes gets the first plane's values. ``places`` (rows of the table, 2) are those on the
    map of embeddings.
    """
    import pandas as pd

    if places is not None:
        table = table.assign(map_x=places[:, 0], map_y=places[:, 1])
    table = table.drop_duplicates("region").set_index("region")
    names = [column.name for column in columns_in("layer")]
    if places is not None:
        names += ["map_x", "map_y"]
    columns = table[names].rename(columns=_RENAMED)
    # A region of the layer that is not in the results has none, so the numbers must allow gaps.
    columns.insert(0, "label", pd.Series(table.index, index=table.index, dtype="Int64"))
    columns.insert(1, "roi_id", image)
    columns["decision"] = [decisions.get(number, "") for number in table.index]
    return columns
