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
from ...base.identity import Position, RegionKey
from ...batch.decided import archive_file
from ...batch.opened import OpenProject
from ...images.opening import open_image
from ...images.plane_source import PlaneSource
from ...library.thumbnails import cut_out
from ...results.export.archive import open_archive
from ...results.export.bundle import Bundle, CompressedRegion, compress_masks
from ...results.spaces import OneSpace
from ...review.reporting import decisions_of
from ..layers.pictures import copy_layer
from ..session import RegionPlace, Session
from ..workers.driver import Update, check_stopped, show

if TYPE_CHECKING:
    import pandas as pd

    from ...base.regions import Region
    from ...library.library import Library
    from ...results.results import Results
    from ...review.decisions import Decision

Pixels = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float32]
Cut = Iterator[tuple[int, Pixels | None]]
COLUMNS: Final = (
    *("image", "region", "position", "suggestion", "confidence", "margin"),
    *("doubtful", "decision", "label", "area"),
)
_LIGHT: Final = np.array([255, 255, 255], np.uint8)


@dataclass(eq=False, kw_only=True)
class RegionTable:
    """Regions as rows, and what can be had of each; a row's number is its key.

    ``frame`` has `COLUMNS`: image (its name in the project, its path in the library; "" for this
    image), number and plane of the region, its suggestion with confidence and margin (NaN where
    unknown), whether that is doubtful, the decision with the accepted label, and the pixels it
    covers; and ``id`` (in the library) or -1. Decisions change in place, see `decide`.
    """

    frame: pd.DataFrame
    words: tuple[str, ...] = ()  # That can be given to regions, in the order of their keys
    problems: tuple[str, ...] = ()  # Images that could not be read, one line each
    # Crops (h, w, 4) of rows, in any order: colours, and the region as opacity; None without one
    cut: Callable[[Sequence[int]], Cut]
    # Unit embeddings (rows, e) of rows, all of one space
    embed: Callable[[Sequence[int]], FloatArray]
    _rows: dict[Any, int] = field(default_factory=dict)

    def thumbnails(self, rows: Sequence[int]) -> Cut:
        """Yield pictures (h, w, 3) of rows with the regions' outlines, as they get ready."""
        for row, pixels in self.cut(rows):
            check_stopped()
            yield row, None if pixels is None else outlined(pixels)

    def embeddings(self, rows: Sequence[int]) -> FloatArray:
        """Return unit embeddings, (rows, e); for a worker."""
        return self.embed(rows)

    def place(self, row: int) -> RegionPlace:
        """Return where a region is, to open it there: ``session.ask("open region", place)``."""
        one = self.frame.iloc[row]
        return RegionPlace(one["image"], int(one["region"]), one["position"])

    def row_of(self, image: str, key: RegionKey) -> int:
        """Return the row of a region; -1 if it is not in the table."""
        if not self._rows:
            columns = (self.frame[name] for name in ("image", "region", "position"))
            self._rows = {one: row for row, one in enumerate(zip(*columns, strict=True))}
        return self._rows.get((image, key.id, key.position), -1)

    def decide(self, row: int, decision: str, label: str) -> None:
        """Note what was decided about a row."""
        for name, value in (("decision", decision), ("label", label)):
            self.frame.iat[row, self.frame.columns.get_loc(name)] = value


def outlined(pixels: Pixels) -> Pixels:
    """Return a crop (h, w, 3) with the outline of its region: a light line within a dark one."""
    mask = np.pad(pixels[..., 3] > 127, 1)
    near = mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
    around = mask[:-2, 1:-1] | mask[2:, 1:-1] | mask[1:-1, :-2] | mask[1:-1, 2:]
    inside, picture = mask[1:-1, 1:-1], pixels[..., :3].copy()
    picture[around & ~inside] = 0
    picture[inside & ~near] = _LIGHT
    return picture


def open_region(session: Session, place: RegionPlace) -> None:
    """Select a region on the canvas, on its own image."""
    shown = "" if session.project is None else session.project.current
    if place.image not in ("", shown):
        session.ask("open region", place)
        return
    session.select_place(place)


# -- this image ------------------------------------------------------------------------------------


def of_image(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the results shown."""
    record = session.record
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
    words = () if review is None else tuple(review.words)
    return partial(_shown, record.results, record.masks, decisions, planes, words)


def _shown(
    results: Results,
    masks: Any,
    decisions: Mapping[RegionKey, Decision],
    planes: Mapping[Position, PlaneSource],
    words: Sequence[str],
) -> RegionTable:
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
        words=tuple(dict.fromkeys((*_words(results), *words))),
        cut=cut,
        embed=lambda rows: np.stack([regions[row].embedding for row in rows]),
    )


# -- the project -----------------------------------------------------------------------------------


def of_project(session: Session) -> Callable[[], RegionTable]:
    """Return what reads the stored results of all images of the project."""
    project = session.project
    if project is None or not project.file:
        raise InputError("No project is open; open one on the tab Images.")
    return partial(_of_images, Path(project.file))


def _of_images(file: Path) -> RegionTable:
    project = OpenProject.read(file)
    cells: list[tuple[Any, ...]] = []
    words: dict[str, None] = dict.fromkeys(project.vocabulary.labels if project.vocabulary else ())
    problems, names = [], list(project.by_name)
    first: list[int] = []  # Row of each image's first region
    for number, name in enumerate(names):
        show(partial(Update, text=f"reading {name}", fraction=number / len(names)))
        first.append(len(cells))
        try:
            if bundle := _bundle(project, name):
                decisions = decisions_of(bundle, project.path(name))
                cells += _cells(name, bundle.results, decisions)
                words |= dict.fromkeys(_words(bundle.results))
                words |= dict.fromkeys(decisions.accepted().values())
        except (MaskInversionError, OSError) as error:
            problems.append(f"{name}: {' '.join(str(error).split())}")

    def of_images(rows: Sequence[int]) -> Iterator[tuple[str, list[int], int]]:
        places = np.searchsorted(first, rows, side="right") - 1
        for place in np.unique(places):
            yield (
                names[place],
                [int(row) for row in np.asarray(rows)[places == place]],
                first[place],
            )

    def cut(rows: Sequence[int]) -> Cut:
        for name, own, start in of_images(rows):
            try:
                yield from cut_from_file(project, name, own, start)
            except (MaskInversionError, OSError):  # the image is gone, or another one
                yield from ((row, None) for row in own)

    def embed(rows: Sequence[int]) -> FloatArray:
        by_row: dict[int, FloatArray] = {}
        spaces = OneSpace()
        for name, own, start in of_images(rows):
            if bundle := _bundle(project, name):
                spaces.check(bundle.results)
                by_row |= {row: bundle.results.regions[row - start].embedding for row in own}
        return np.stack([by_row[row] for row in rows])

    return RegionTable(
        frame=_frame(cells), words=tuple(words), problems=tuple(problems), cut=cut, embed=embed
    )


def _bundle(project: OpenProject, name: str) -> Bundle | None:
    file = archive_file(project, name)
    return None if file is None else open_archive(file)


def cut_from_file(project: OpenProject, name: str, rows: Sequence[int], start: int) -> Cut:
    bundle = _bundle(project, name)
    if bundle is None:
        raise InputError(f"{name} has no results any more.")
    info, masks = bundle.results.info, bundle.region_masks()
    channels = info.settings.channels
    with open_image(project.path(name), info.settings.series) as stack:
        if stack.shape != info.image_shape:
            raise InputError(f"{name} has changed.")
        for row in rows:
            one = bundle.results.regions[row - start]
            plane = stack.source(dict(one.position), channels and channels.split(","))
            yield row, _cropped(plane, one.bbox, masks[row - start])


# -- the library -----------------------------------------------------------------------------------


def of_library(library: Library | None) -> Callable[[], RegionTable]:
    """Return what reads the rows of a library."""
    if library is None:
        raise InputError("No library is open.")
    return partial(_of_library, library)


def _of_library(library: Library) -> RegionTable:
    spaces = library.info()["spaces"]
    # Those of one space: others are the same regions again, or cannot be compared with them.
    space = max(spaces, key=lambda one: spaces[one]["regions"], default=0)
    frame = library.rows(space=space)
    ids = frame["id"].to_numpy()
    accepted = (frame["decision"] == "accepted").to_numpy()
    words = dict.fromkeys([*frame["suggestion"].unique(), *frame["label"].unique()])
    made = frame[["image", "region", "suggestion", "confidence", "decision", "area", "id"]].assign(
        position=[position_of(text) for text in frame["plane"]],
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
    )


def position_of(text: str) -> Position:
    """Return a plane as a library has it (``t=3,z=12``)."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return tuple((axis, int(at)) for axis, _, at in pairs)


# -- rows ------------------------------------------------------------------------------------------


def _cells(
    image: str, results: Results, decisions: Mapping[RegionKey, Decision]
) -> Iterable[tuple[Any, ...]]:
    for one in results.regions:
        decision = decisions.get(RegionKey(one.id, one.position))
        yield (
            image,
            one.id,
            one.position,
            one.suggestion or one.source_label,
            np.nan if one.ranking is None else float(one.ranking.probabilities[0]),
            one.margin,
            one.flagged,
            "undecided" if decision is None else decision.status,
            "" if decision is None else decision.label,
            one.area,
        )


def _frame(cells: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(list(cells), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(("decision", "label"), object)).assign(id=-1)


def _words(results: Results) -> tuple[str, ...]:
    vocabulary = results.info.vocabulary
    return () if vocabulary is None else vocabulary.labels


def _cropped(
    plane: PlaneSource, box: tuple[int, int, int, int], mask: CompressedRegion | Region | None
) -> Pixels | None:
    region = mask.unpack() if isinstance(mask, CompressedRegion) else mask
    return np.asarray(cut_out(plane, box, region))
