"""Regions with their crops: of this image, of the project, of the library.

The gallery and the map show such tables. Functions `of_...` copy what they need on the GUI thread
and return the work that reads the table, for a worker. No Qt here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError, MaskInversionError
from ...base.identity import Position, RegionKey, plane_of
from ...base.regions import Region
from ...base.wording import one_line
from ...batch.decided import archive_file, file_in, has_its_image
from ...batch.opened import OpenProject
from ...images.opening import open_image
from ...images.plane_source import PlaneSource
from ...library.deciding import names_of
from ...library.library import Library
from ...library.region_fields import gallery_fields
from ...library.thumbnails import Pixels, cut_out, outlined
from ...results.export.archive import open_archive
from ...results.export.bundle import CompressedRegion, compress_masks
from ...results.results import Results
from ...results.run_info import RunInfo
from ...results.spaces import Space, check_alike
from ...review.decisions import Decision
from ...review.reporting import decisions_of
from ...review.together import Decided, Outline
from ..layer_input.layer_facts import place_of_file
from ..layer_input.pictures import copy_layer
from ..session import RegionPlace, Session
from ..work.driver import Update, check_stopped, show

if TYPE_CHECKING:
    import pandas as pd

File = tuple[str, int]  # Path of an image, as libraries have it, and its number in the file
Box = tuple[int, int, int, int]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.intp]
Cut = Iterator[tuple[int, Pixels | None]]
COLUMNS: Final = tuple(field.name for field in gallery_fields())


@dataclass(eq=False, kw_only=True)
class RegionTable:
    """Regions as rows, and what can be had of each; a row's number is its key.

    ``frame`` has `COLUMNS`: image (its name in the project, its path in the library; "" for this
    image), number and plane of the region, its suggestion with confidence and margin (NaN where
    unknown), whether that is doubtful, the decision with the accepted label, the pixels it covers
    and its box; and ``id`` (in the library) or -1. Decisions change in place, see `decide`.
    """

    frame: pd.DataFrame
    words: tuple[str, ...] = ()  # That can be given to regions, in the order of their keys
    problems: tuple[str, ...] = ()  # Images that could not be read, one line each
    # Crops (h, w, 4) of rows, in any order: colours, and the region as opacity; None without one
    cut: Callable[[Sequence[int]], Cut]
    # Unit embeddings (rows, e) of rows, all of one space; for a worker
    embed: Callable[[Sequence[int]], FloatArray]
    files: Mapping[str, File] = field(default_factory=dict)  # Of images that have other names
    spaces: Mapping[str, Space] = field(default_factory=dict)  # Of the images of a project
    library: Library | None = None  # That the rows are of
    # The row of each region of the results shown, (N,); -1 for one that is not here
    here: IntArray = field(default_factory=lambda: np.zeros(0, np.intp))
    _rows: dict[Any, int] | None = None  # By file, number and plane; made when first asked for

    def thumbnails(self, rows: Sequence[int]) -> Cut:
        """Yield pictures (h, w, 3) of rows with the regions' outlines, as they get ready."""
        for row, pixels in self.cut(rows):
            check_stopped()
            yield row, None if pixels is None else outlined(pixels)

    def place(self, row: int) -> RegionPlace:
        """Return where a region is, to open it there with `open_region`."""
        return self.places([row])[0]

    def places(self, rows: Any) -> list[RegionPlace]:
        """Return where regions are."""
        frame = self.frame[["image", "region", "position"]].iloc[np.asarray(rows, np.intp)]
        return [
            RegionPlace(image, region, position, *self.file(image))
            for image, region, position in frame.itertuples(index=False, name=None)
        ]

    def find_here(self, session: Session) -> None:
        """Set `here`."""
        file, rows = shown_file(session), []
        for one in () if session.run.results is None else session.run.results.regions:
            row = self.row_of(file, one.key)
            # A region that was drawn again is another one of the same number.
            same = row >= 0 and self.outline(row) == (one.bbox, one.area)
            rows.append(row if same else -1)
        self.here = np.array(rows, np.intp)

    def selected(self, session: Session) -> IntArray:
        """Return the rows of what is selected in the session, rising."""
        rows = [int(self.here[row]) for row in session.review.chosen_rows if row < len(self.here)]
        rows += [
            self.row_of(one.file, RegionKey(one.region, one.position))
            for one in session.review.marked
        ]
        return np.unique([row for row in rows if row >= 0]).astype(np.intp)

    def select(self, session: Session, rows: Any, *, more: bool = False) -> None:
        """Select rows in the session, beside what is selected there with ``more``."""
        mine = np.flatnonzero(np.isin(self.here, rows)).tolist()
        places = self.places(np.setdiff1d(rows, self.here))
        session.mark(
            sorted({*(session.review.chosen_rows if more else ()), *mine}),
            dict.fromkeys([*(session.review.marked if more else ()), *places]),
        )

    def file(self, image: str) -> File:
        """Return where an image is."""
        return self.files.get(image, (image, 0))

    def row_of(self, file: File, key: RegionKey) -> int:
        """Return the row of a region; -1 if it is not in the table."""
        if self._rows is None:
            columns = (self.frame[name] for name in ("region", "position"))
            known = zip(map(self.file, self.frame["image"]), *columns, strict=True)
            self._rows = {one: row for row, one in enumerate(known)}
        return self._rows.get((file, key.id, key.position), -1)

    def outline(self, row: int) -> Outline:
        """Return box and area of a region: another one of the same number has others."""
        box: Any = self.frame["box"].iat[row]
        area: Any = self.frame["area"].iat[row]
        return box, area

    def follow(self, session: Session) -> bool:
        """Take decisions and suggestions about the image shown; return whether any is here."""
        review, results = session.reviewed, session.run.results
        regions = () if results is None else results.regions
        rows = [row for row, at in enumerate(self.here.tolist()) if at >= 0]
        best, words, sure = self.frame["suggestion"], dict[int, str](), dict[int, float]()
        for row in rows:
            ranking, at = regions[row].ranking, int(self.here[row])
            label = regions[row].suggestion
            scores = [] if ranking is None else [float(ranking.probabilities[0])]
            if review is not None:
                label = review.suggestion(row)
                scores = [one.score for one in review.top(row) if one.label == label]
            if label and label != best.iat[at]:
                words[at], sure[at] = label, next(iter(scores), float("nan"))
        self._set("suggestion", words)
        self._set("confidence", sure)
        if review is not None:
            get, keys = review.review.decisions.get, review.queue.keys
            self.decide({int(self.here[row]): get(keys[row]) for row in rows})
        return review is not None and bool(rows)

    def take(self, decided: Decided, files: Mapping[str, File]) -> None:
        """Note decisions about several images, of which ``files`` may have other names here."""
        states = {
            self.row_of(files.get(image) or self.file(image), one.region): one.after
            for image, step in decided.steps.items()
            for one in step
        }
        states.pop(-1, None)
        self.decide(states)

    def decide(self, states: Mapping[int, Decision | None]) -> None:
        """Note what was decided about rows; None makes one undecided."""
        made = {row: one for row, one in states.items() if one is not None}
        words = {row: made[row].status if row in made else "undecided" for row in states}
        self._set("decision", words)
        self._set("label", {row: made[row].label if row in made else "" for row in states})

    def _set(self, name: str, values: Mapping[int, Any]) -> None:
        column = np.array(self.frame[name])
        column[list(values)] = list(values.values())
        self.frame[name] = column


def no_regions() -> RegionTable:
    """Return a table without rows."""
    none = np.zeros((0, 1), np.float32)
    return RegionTable(frame=_frame(()), cut=lambda _: iter(()), embed=lambda _: none)


def words_of(frame: pd.DataFrame) -> pd.Series[str]:
    """Return the accepted label of each region, else its suggestion."""
    return frame["label"].where(frame["decision"] == "accepted", frame["suggestion"])


def open_region(session: Session, place: RegionPlace) -> None:
    """Select a region on the canvas, on its own image."""
    if place.image:
        session.project.open_region.emit(place)
    else:
        session.select_place(place)


# -- this image ------------------------------------------------------------------------------------


def of_image(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the results shown."""
    record = session.run.record
    if record is None:
        raise InputError("This image has no suggestions yet.")
    review, image, finder = session.reviewed, record.snapshot.image, record.finder
    decisions = {} if review is None else dict(review.review.decisions)
    planes: dict[Position, PlaneSource] = {}
    for position in dict.fromkeys(region.position for region in record.results.regions):
        if image is None or finder is None:
            break
        with suppress(InputError):
            at = position if finder.all_planes else ()
            layer = copy_layer(image, finder.view_at(at), shown_only=True, snapshot=False)
            planes[position] = layer.source(finder.plane(at).cut)
    results, masks, file = record.results, record.masks, shown_file(session)
    words = dict.fromkeys((*_words(results), *(() if review is None else review.words)))

    def read() -> RegionTable:
        compressed = masks if isinstance(masks, dict) else compress_masks(masks or ())
        regions = results.regions

        def cut(rows: Sequence[int]) -> Cut:
            for row in rows:
                one = regions[row]
                mask = compressed.get((one.position, one.id))
                plane = planes.get(one.position)
                yield row, None if plane is None else _cropped(plane, one.bbox, mask)

        return RegionTable(
            frame=_frame(_cells("", results, decisions)),
            words=tuple(words),
            cut=cut,
            embed=lambda rows: np.stack([regions[row].embedding for row in rows]),
            files={"": file},
        )

    return read


def shown_file(session: Session) -> File:
    """Return the file of the image shown, as tables name it."""
    return place_of_file(session.run.image) or ("", 0)


# -- the project -----------------------------------------------------------------------------------


def of_project(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the stored results of all images of the project."""
    project = session.project.state
    if project is None or not project.file:
        raise InputError("No project is open; open one on the tab Images.")
    return partial(read_project, Path(project.file))


@dataclass(frozen=True, slots=True, eq=False)
class _ImageRows:
    """The rows of one image, and what cuts them out."""

    name: str
    first: int
    info: RunInfo
    crops: Sequence[tuple[Position, Box, CompressedRegion | None]]


def read_project(file: Path, doing: str = "reading") -> RegionTable:
    """Read the stored results of all images of a project; for a worker."""
    project = OpenProject.read(file)
    cells: list[dict[str, Any]] = []
    vectors: list[FloatArray] = []
    words: dict[str, None] = dict.fromkeys(project.vocabulary.labels if project.vocabulary else ())
    problems: list[str] = []
    images: list[_ImageRows] = []
    spaces: dict[str, Space] = {}
    for number, name in enumerate(project.by_name):
        show(partial(Update, text=f"{doing} {name}", fraction=number / len(project.by_name)))
        if (archive := archive_file(project, name)) is None:
            continue
        try:
            bundle = open_archive(archive)
            decisions = decisions_of(bundle, project.path(name))
        except (MaskInversionError, OSError) as error:
            problems.append(f"{name}: {one_line(error)}")
            continue
        results = bundle.results
        own = zip(results.regions, bundle.region_masks(), strict=True)
        crops = [(one.position, one.bbox, mask) for one, mask in own]
        images.append(_ImageRows(name, len(cells), results.info, crops))
        spaces[name] = Space.of(results)
        vectors += list(results.embeddings)  # no archive is read twice
        cells += _cells(name, results, decisions)
        words |= dict.fromkeys((*_words(results), *decisions.accepted().values()))
    starts = [one.first for one in images]

    def cut(rows: Sequence[int]) -> Cut:
        wanted = np.asarray(rows)
        places = np.searchsorted(starts, wanted, side="right") - 1
        for place in np.unique(places):
            own = wanted[places == place].tolist()
            try:
                yield from _cut_from_file(project, images[place], own)
            except (MaskInversionError, OSError):  # the image is gone, or another one
                yield from ((row, None) for row in own)

    def embed(rows: Sequence[int]) -> FloatArray:
        check_alike(spaces[name] for name in dict.fromkeys(cells[row]["image"] for row in rows))
        return np.stack([vectors[row] for row in rows])

    return RegionTable(
        frame=_frame(cells),
        words=tuple(words),
        problems=tuple(problems),
        cut=cut,
        embed=embed,
        files={name: file_in(project, name) for name in project.by_name},
        spaces=spaces,
    )


def _cut_from_file(project: OpenProject, image: _ImageRows, rows: Sequence[int]) -> Cut:
    if not has_its_image(project, image.name):
        raise InputError(f"{image.name} has changed.")
    channels = image.info.settings.channels
    with open_image(project.path(image.name), image.info.settings.series) as stack:
        for row in rows:
            position, box, mask = image.crops[row - image.first]
            plane = stack.source(dict(position), channels and channels.split(","))
            yield row, _cropped(plane, box, mask)


# -- the library -----------------------------------------------------------------------------------


def of_library(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the rows of the library in use."""
    if session.explore.library is None:
        raise InputError("No library is open.")
    return partial(read_library, session.explore.library)


def read_library(library: Library) -> RegionTable:
    """Read the rows of the largest space of a library; for a worker.

    Those of others are the same regions again, or cannot be compared with them.
    """
    spaces = library.info()["spaces"]
    frame = library.rows(space=max(spaces, key=lambda one: spaces[one]["regions"], default=0))
    ids = frame["id"].to_numpy()
    accepted = (frame["decision"] == "accepted").to_numpy()
    words = dict.fromkeys([*frame["suggestion"].unique(), *frame["label"].unique()])
    positions: Any = [plane_of(text) for text in frame["plane"]]
    files = zip(frame["image"], frame["series"].tolist(), strict=True)
    boxes: Any = list(zip(*(frame[edge] for edge in ("y0", "x0", "y1", "x1")), strict=True))
    made = frame[[name for name in frame if name in (*COLUMNS, "id")]].assign(
        image=names_of(frame),
        confidence=frame["confidence"].astype(float),
        position=positions,
        box=boxes,
        margin=np.nan,
        doubtful=False,  # it keeps no figures for that
        label=np.where(accepted, frame["label"], ""),
    )

    def cut(rows: Sequence[int]) -> Cut:
        for row in rows:
            yield row, library.thumbnail(int(ids[row]))

    return RegionTable(
        frame=made[[*COLUMNS, "id"]].astype(dict.fromkeys(("decision", "label"), object)),
        words=tuple(word for word in words if word),
        cut=cut,
        embed=lambda rows: library.vectors(ids[np.asarray(rows, int)]),
        library=library,
        files={name: file for name, file in zip(made["image"], files, strict=True) if file[1]},
    )


IMAGE, PROJECT, LIBRARY = "This image", "The project", "The library"
SOURCES: Final[Mapping[str, Callable[[Session], Callable[[], RegionTable]]]] = {
    IMAGE: of_image,
    PROJECT: of_project,
    LIBRARY: of_library,
}


# -- rows ------------------------------------------------------------------------------------------


def _cells(
    image: str, results: Results, decisions: Mapping[RegionKey, Decision]
) -> Iterable[dict[str, Any]]:
    for region in results.regions:
        decision = decisions.get(region.key)
        ranking = region.ranking
        yield {
            "image": image,
            "region": region.id,
            "position": region.position,
            "suggestion": region.suggestion or region.source_label,
            "confidence": np.nan if ranking is None else float(ranking.probabilities[0]),
            "margin": region.margin,
            "doubtful": region.flagged,
            "decision": "undecided" if decision is None else decision.status,
            "label": "" if decision is None else decision.label,
            "area": region.area,
            "box": region.bbox,
        }


def _frame(cells: Iterable[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(list(cells), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(("decision", "label"), object)).assign(id=-1)


def _words(results: Results) -> tuple[str, ...]:
    vocabulary = results.info.vocabulary
    return () if vocabulary is None else vocabulary.labels


def _cropped(plane: PlaneSource, box: Box, mask: CompressedRegion | Region | None) -> Pixels | None:
    region = mask.unpack() if isinstance(mask, CompressedRegion) else mask
    return np.asarray(cut_out(plane, box, region))
