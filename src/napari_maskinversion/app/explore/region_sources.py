"""Regions with their crops: of this image, of the project, of the library.

The gallery and the map show such tables. Functions `of_...` copy what they need on the GUI thread
and return the work that reads the table, for a worker. No Qt here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError, MaskInversionError
from ...base.identity import ImageIdentity, ImagePlace, Position, RegionKey, plane_of
from ...batch.opened import OpenProject
from ...batch.project_decisions import ProjectRegions, has_its_image
from ...batch.project_index import IndexedImage, ProjectIndex, place_in
from ...images.opening import open_image
from ...images.plane_source import PlaneSource
from ...library.library import Library
from ...library.library_decisions import LibraryRegions, names_of
from ...library.region_fields import gallery_fields
from ...library.thumbnails import Pixels, cut_out, outlined
from ...results.export.bundle import Bundle, CompressedRegion, compress_masks
from ...results.results import Results
from ...results.spaces import check_alike
from ...review.decisions import Decision
from ...review.reporting import decision_columns
from ...review.stored_images import DecisionSource
from ..layer_input.input_pictures import copy_layer
from ..layer_input.layer_facts import place_of_image
from ..review.decision_requests import DecisionOutcome, Outline
from ..session import RegionPlace, ResultRecord, Session
from ..session.jobs import Subject
from ..session.subjects import library_chosen, project_open, run_shown
from ..work.driver import check_stopped

if TYPE_CHECKING:
    import pandas as pd

Box = tuple[int, int, int, int]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.intp]
Cut = Iterator[tuple[int, Pixels | None]]
_SHOWN: Final = "shown"  # stands for the hash of the image in view
_TITLE: Final = "this image"
COLUMNS: Final = tuple(field.name for field in gallery_fields())


@dataclass(eq=False, kw_only=True)
class RegionTable:
    """Regions as rows, and what can be had of each; a row's number is its key.

    ``frame`` has `COLUMNS`: image (its name in the project, its path in the library; "" for this
    image), number and plane of the region, its suggestion with confidence and margin (NaN where
    unknown), whether that is doubtful, the decision with the accepted label, the pixels it covers
    and its box; and ``id`` and ``space`` in its library. Decisions change in place, see `decide`.
    """

    frame: pd.DataFrame
    words: tuple[str, ...] = ()  # That can be given to regions, in the order of their keys
    problems: tuple[str, ...] = ()  # Images that could not be read, one line each
    # Crops (h, w, 4) of rows, in any order: colours, and the region as opacity; None without one
    cut: Callable[[Sequence[int]], Cut]
    # Unit embeddings (rows, e) of rows, all of one space; for a worker
    embed: Callable[[Sequence[int]], FloatArray]
    files: Mapping[str, ImagePlace] = field(default_factory=dict)  # Of images that have other names
    # What has the rows with these ids when decisions about them are made; None: the open review
    source: Callable[[Sequence[int]], DecisionSource] | None = None
    are_of_library: bool = False  # Whether the regions are those of a library of the user's
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
        chosen = self.frame.iloc[np.asarray(rows, np.intp)]
        columns = chosen[["image", "region", "position"]]
        places = [
            RegionPlace(image, RegionKey(region, position), self.file(image))
            for image, region, position in columns.itertuples(index=False, name=None)
        ]
        if not self.are_of_library:
            return places
        # A library may not know yet that a region was drawn again.
        return [replace(place, box=box) for place, box in zip(places, chosen["box"], strict=True)]

    def drawn_places(self) -> list[RegionPlace]:
        """Return where all regions are, each with its box."""
        places = self.places(range(len(self.frame)))
        return [
            replace(place, box=box) for place, box in zip(places, self.frame["box"], strict=True)
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
        rows += [self.row_of(marked.file, marked.key) for marked in session.review.marked]
        return np.unique([row for row in rows if row >= 0]).astype(np.intp)

    def select(self, session: Session, rows: Any, *, more: bool = False) -> None:
        """Select rows in the session, beside what is selected there with ``more``."""
        mine = np.flatnonzero(np.isin(self.here, rows)).tolist()
        places = self.places(np.setdiff1d(rows, self.here))
        session.mark(
            sorted({*(session.review.chosen_rows if more else ()), *mine}),
            dict.fromkeys([*(session.review.marked if more else ()), *places]),
        )

    def file(self, image: str) -> ImagePlace:
        """Return where an image is."""
        return self.files.get(image, ImagePlace(image))

    def row_of(self, file: ImagePlace, key: RegionKey) -> int:
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
            if ranking is not None and label != best.iat[at]:
                words[at], sure[at] = label, float(ranking.probabilities[0])
        self._set("suggestion", words)
        self._set("confidence", sure)
        if review is not None:
            get, keys = review.review.decisions.get, review.queue.keys
            self.decide({int(self.here[row]): get(keys[row]) for row in rows})
        return review is not None and bool(rows)

    def take(self, decided: DecisionOutcome) -> None:
        """Note decisions about images, which may have other names here."""
        states: dict[int, Decision | None] = {}
        for image, step in decided.steps.items():
            for change in step:
                states[self.row_of(decided.places[image], change.region)] = change.after
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
    source = RegionSource(library=Library.in_memory(), title="", cut=without_crops, files={})
    return source.table()


def words_of(frame: pd.DataFrame) -> pd.Series[str]:
    """Return the accepted label of each region, else its suggestion."""
    return frame["label"].where(frame["decision"] == "accepted", frame["suggestion"])


def open_region(session: Session, place: RegionPlace) -> None:
    """Select a region on the canvas, on its own image."""
    if place.image:
        session.project.open_region.emit(place)
    else:
        session.select_place(place)


# -- one reader ------------------------------------------------------------------------------------


class Crop(NamedTuple):
    """A region that is to be cut out."""

    row: int
    id: int  # In the library
    image: str
    position: Position
    box: Box


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionSource:
    """A library of regions, what its images are called, and where crops come from."""

    library: Library
    title: str
    cut: Callable[[Library, Sequence[Crop]], Cut]
    # Names of images, in order, and their files; None: images are called by their paths
    files: Mapping[str, ImagePlace] | None = None
    words: tuple[str, ...] = ()  # That can be given to regions, besides those that were accepted
    problems: tuple[str, ...] = ()
    decisions: Callable[[Sequence[int]], DecisionSource] | None = None  # see `RegionTable.source`

    def table(self) -> RegionTable:
        """Read all regions that can be shown together."""
        if self.files is not None:
            return self.table_of(self.library.rows())
        # The regions of other spaces are the same ones again, or cannot be compared with these.
        spaces = self.library.info()["spaces"]
        largest = max(spaces, key=lambda number: spaces[number]["regions"], default=0)
        return self.table_of(self.library.rows(space=largest))

    def table_of(self, rows: pd.DataFrame) -> RegionTable:
        """Return a table of regions of the library, see `Library.rows`."""
        frame, files = self._frame(rows)
        ids = frame["id"].to_numpy()
        space_numbers = frame["space"].to_numpy()
        library, spaces = self.library, self.library.spaces()
        accepted = frame["label"].unique()
        words = dict.fromkeys([*self.words, *accepted])
        if self.files is None:
            words = dict.fromkeys([*frame["suggestion"].unique(), *accepted])

        def cut(rows: Sequence[int]) -> Cut:
            wanted = frame[["id", "image", "position", "box"]].iloc[np.asarray(rows, np.intp)]
            crops = zip(rows, wanted.itertuples(index=False, name=None), strict=True)
            return self.cut(library, [Crop(int(row), *values) for row, values in crops])

        def embed(rows: Sequence[int]) -> FloatArray:
            chosen = np.asarray(rows, np.intp)
            wanted, numbers = ids[chosen], space_numbers[chosen]
            own = [spaces[number] for number in dict.fromkeys(numbers.tolist())]
            check_alike(own)
            embeddings = np.zeros((len(wanted), own[0].width if own else 1), np.float32)
            for space in own:  # alike, but of a model whose file lies elsewhere
                here = numbers == space.id
                embeddings[here] = library.vectors(wanted[here].tolist())
            return embeddings

        return RegionTable(
            frame=frame,
            words=tuple(word for word in words if word),
            problems=self.problems,
            cut=cut,
            embed=embed,
            files=files,
            source=self.decisions,
            are_of_library=self.files is None,
        )

    def _frame(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, ImagePlace]]:
        """Return rows with `COLUMNS`, and the files of images that have other names."""
        places = list(map(ImagePlace, rows["image"], rows["series"].tolist()))
        if self.files is None:
            rows = rows.assign(image=names_of(rows))
            named = zip(rows["image"], places, strict=True)
            files = {name: place for name, place in named if place.series}
        else:
            files = dict(self.files)
            names = {file: name for name, file in files.items()}
            order = {name: number for number, name in enumerate(files)}
            rows = rows.assign(image=[names.get(place, "") for place in places])
            if "similarity" not in rows:  # else the best come first
                by_image = rows["image"].map(order).fillna(0).to_numpy()
                rows = rows.iloc[np.argsort(by_image, kind="stable")].reset_index(drop=True)
        positions: Any = [plane_of(text) for text in rows["plane"]]
        boxes: Any = list(zip(*(rows[edge] for edge in ("y0", "x0", "y1", "x1")), strict=True))
        frame = rows.assign(
            confidence=rows["confidence"].astype(float),
            position=positions,
            box=boxes,
            doubtful=rows["flagged"].fillna(False).astype(bool),
            label=rows["label"].where(rows["decision"] == "accepted", ""),
        )
        more = [name for name in ("id", "space", "similarity") if name in frame]
        kinds = dict.fromkeys(("decision", "label"), object)
        return frame[[*COLUMNS, *more]].astype(kinds), files


def _read(make: Callable[[], RegionSource]) -> RegionTable:
    return make().table()


def cut_thumbnails(library: Library, crops: Sequence[Crop]) -> Cut:
    """Yield the pictures that a library has of regions."""
    for crop in crops:
        yield crop.row, library.thumbnail(crop.id)


def without_crops(_: Library, crops: Sequence[Crop]) -> Cut:
    """Yield no picture of any region."""
    for crop in crops:
        yield crop.row, None


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
    shown, file = record, shown_file(session)
    words = dict.fromkeys((*_words(shown.results), *(() if review is None else review.words)))

    def cut(library: Library, crops: Sequence[Crop]) -> Cut:
        regions = library.masks([crop.id for crop in crops])
        for crop in crops:
            plane = planes.get(crop.position)
            mask = regions.get(crop.id)
            yield crop.row, None if plane is None else _cropped(plane, crop.box, mask)

    def source() -> RegionSource:
        columns = decision_columns(shown.results, decisions)
        return replace(results_source(shown, file, columns), cut=cut, words=tuple(words))

    return partial(_read, source)


def results_source(
    record: ResultRecord, file: ImagePlace, columns: Mapping[str, Sequence[str]]
) -> RegionSource:
    """Return the regions of results, without crops; ``columns`` say what was decided."""
    library, masks = Library.in_memory(), record.masks or {}
    if record.results.regions:
        library.add(
            Bundle(
                results=record.results,
                masks=masks if isinstance(masks, dict) else compress_masks(masks),
                image=ImageIdentity(content=_SHOWN),
                columns=columns,
            )
        )
    return RegionSource(library=library, title=_TITLE, cut=without_crops, files={"": file})


def shown_file(session: Session) -> ImagePlace:
    """Return the file of the image shown, as tables name it."""
    return place_of_image(session.run.image) or ImagePlace("")


# -- the project -----------------------------------------------------------------------------------


def of_project(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the stored results of all images of the project."""
    project = session.project.state
    if project is None or not project.file:
        raise InputError("No project is open; open one on the tab Images.")
    source = partial(project_source, Path(project.file), library=session.explore.library)
    return partial(_read, source)


def project_source(file: Path, library: Library | None = None) -> RegionSource:
    """Return the regions of a project, as its files are now; for a worker.

    Decisions about them are passed on to a ``library`` that has them, too.
    """
    project = OpenProject.read(file)
    index = ProjectIndex.fresh(project)
    images = index.images()
    words = dict.fromkeys(project.vocabulary.labels if project.vocabulary else ())
    for image in images.values():
        words |= dict.fromkeys(image.words)

    def cut(index_library: Library, crops: Sequence[Crop]) -> Cut:
        masks = index_library.masks([crop.id for crop in crops])
        by_image: dict[str, list[Crop]] = {}
        for crop in crops:
            by_image.setdefault(crop.image, []).append(crop)
        for name, own in by_image.items():
            try:
                yield from _cut_from_file(project, images[name], own, masks)
            except (MaskInversionError, OSError):  # the image is gone, or another one
                yield from ((crop.row, None) for crop in own)

    def decisions(_: Sequence[int]) -> DecisionSource:
        return ProjectRegions(file, library)

    return RegionSource(
        library=index.library,
        title=project.title,
        decisions=decisions,
        cut=cut,
        files={name: place_in(project, name) for name in project.by_name},
        words=tuple(words),
        problems=tuple(f"{name}: {why}" for name, why in index.problems.items()),
    )


def _cut_from_file(
    project: OpenProject,
    image: IndexedImage,
    crops: Sequence[Crop],
    masks: Mapping[int, CompressedRegion],
) -> Cut:
    if not has_its_image(project, image.name):
        raise InputError(f"{image.name} has changed.")
    channels = image.channels
    with open_image(project.path(image.name), image.series) as stack:
        for crop in crops:
            plane = stack.source(dict(crop.position), channels and channels.split(","))
            yield crop.row, _cropped(plane, crop.box, masks.get(crop.id))


# -- the library -----------------------------------------------------------------------------------


def of_library(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the rows of the library in use."""
    if session.explore.library is None:
        raise InputError("No library is open.")
    return partial(_read, partial(library_source, session.explore.library))


def library_source(library: Library) -> RegionSource:
    """Return the regions of a library."""
    return RegionSource(
        library=library,
        title=library.folder.name,
        cut=cut_thumbnails,
        decisions=partial(LibraryRegions, library),
    )


IMAGE, PROJECT, LIBRARY = "This image", "The project", "The library"
SOURCES: Final[Mapping[str, Callable[[Session], Callable[[], RegionTable]]]] = {
    IMAGE: of_image,
    PROJECT: of_project,
    LIBRARY: of_library,
}
# What the regions of a source depend on: where that is another one, they are those of before
SUBJECTS: Final[Mapping[str, Subject]] = {
    IMAGE: run_shown,
    PROJECT: project_open,
    LIBRARY: library_chosen,
}


def _words(results: Results) -> tuple[str, ...]:
    vocabulary = results.info.without_decisions.vocabulary
    return () if vocabulary is None else vocabulary.labels


def _cropped(plane: PlaneSource, box: Box, mask: CompressedRegion | None) -> Pixels | None:
    region = None
    if mask is not None:
        with suppress(ValueError):  # damaged: then the box is shown
            region = mask.unpack()
    return np.asarray(cut_out(plane, box, region))
