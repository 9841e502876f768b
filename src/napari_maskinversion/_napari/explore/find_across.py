"""Find in the stored results of a project, or in a library: by words, or by regions as examples.

No Qt; the work is for a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import Cancelled, InputError, MaskInversionError
from ...base.identity import plane_of
from ...batch.decided import archive_file
from ...batch.opened import OpenProject
from ...language.ranking.query import embed_query
from ...library.filters import Where
from ...library.library import Library
from ...library.thumbnails import Pixels, outlined
from ...results.export.archive import open_archive
from ...results.region_result import RegionResult
from ...results.spaces import Space
from ...review.decisions import STATUSES, Decision, class_of
from ...review.reporting import decisions_of
from ..session import RegionPlace, Session
from ..workers.driver import Update, check_stopped, show
from ..workers.model_store import ModelStore
from .find_anywhere import Example
from .region_sources import cut_from_file

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

MOST: Final = 100  # hits shown


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What is looked for: words, see `language.ranking.query`, or examples."""

    words: str = ""
    like: Example | None = None
    only: str = ""  # Regions with this decision, or else of this class; "" for all
    model: str = ""  # for words
    device: str = ""

    @property
    def text(self) -> str:
        """What to call it."""
        return f"'{self.words}'" if self.words else "All like this one"

    def about(self, hits: int, total: int, place: str) -> str:
        """Say among how many regions of a place it was looked for."""
        if self.only and not hits:
            return f"No region in {place} is '{self.only}'."
        only = f", only '{self.only}'" * bool(self.only)
        return f"{self.text}: the best of {total:,} in {place}{only}."

    def fits(self, decision: str, label: str) -> bool:
        """Return whether a region is among those looked for."""
        return not self.only or self.only == (decision if self.only in STATUSES else label)

    def embedded(self, store: ModelStore) -> tuple[Backbone | None, npt.NDArray[np.float32]]:
        """Return the model of the words, and the unit vector that is looked for."""
        if self.like is not None:
            return None, self.like.embedding
        model = store.load(self.model, self.device)
        return model, embed_query(model, self.words)


@dataclass(frozen=True, slots=True, eq=False)
class FarHit:
    """A region of any image that fits the query."""

    place: RegionPlace
    similarity: float
    label: str
    picture: Pixels | None


@dataclass(frozen=True, slots=True, eq=False)
class FarHits:
    """The best hits, best first, and a line about the search."""

    hits: tuple[FarHit, ...]
    about: str


def in_library(query: Query, library: Library, store: ModelStore) -> FarHits:
    """Search a library."""
    model = store.load(query.model, query.device) if query.like is None else None
    alike = None if query.like is None else query.like.space
    space = library.space(model=model, like=alike).id
    like = [] if query.like is None else [one.embedding for one in query.like.regions]
    show(Update(text="searching the library"))
    where: Where = {"space": space}
    if query.only:
        where["decision" if query.only in STATUSES else "label"] = query.only
    rows = library.search(query.words, like=like, top=MOST, model=model, **where)
    hits = []
    row: dict[Any, Any]
    for row in rows.to_dict("records"):
        check_stopped()
        picture = library.thumbnail(row["id"])
        y0, x0, y1, x1 = (row[name] for name in ("y0", "x0", "y1", "x1"))
        at, box = plane_of(row["plane"]), (y0, x0, y1, x1)
        place = RegionPlace(row["image"], row["region"], at, series=row["series"], box=box)
        shown = None if picture is None else outlined(picture)
        hits.append(FarHit(place, row["similarity"], row["label"], shown))
    total = library.info()["spaces"][space]["regions"]
    return FarHits(tuple(hits), query.about(len(hits), total, library.folder.name))


def in_project(query: Query, session: Session, store: ModelStore) -> Callable[[], FarHits]:
    """Return what searches the stored results of the project."""
    if session.project is None or not session.project.file:
        raise InputError("No project is open; open one on the tab Images.")
    return partial(_in_project, query, Path(session.project.file), store)


def _in_project(query: Query, file: Path, store: ModelStore) -> FarHits:
    model, looked_for = query.embedded(store)
    about = "" if query.like is None else query.like.space.about
    project = OpenProject.read(file)
    near: list[tuple[float, str, int, RegionResult, str]] = []
    total, left_out, names = 0, 0, list(project.by_name)
    for number, name in enumerate(names):
        show(partial(Update, text=f"searching {name}", fraction=number / len(names)))
        if (archive := archive_file(project, name)) is None:
            left_out += 1
            continue
        try:
            bundle = open_archive(archive)
            decisions = decisions_of(bundle, project.path(name))
        except (MaskInversionError, OSError):
            left_out += 1
            continue
        results = bundle.results
        space = Space.of(results)
        if about != space.about and (
            about or model is None or space.fingerprint != model.fingerprint
        ):
            left_out += 1
            continue
        about = space.about
        similar = (results.embeddings * looked_for).sum(1).tolist()
        total += len(results)
        for row, one in enumerate(results.regions):
            decision, label = _state(one, decisions.get(one.key))
            if query.fits(decision, label):
                near.append((similar[row], name, row, one, label))
    best = sorted(near, key=lambda hit: -hit[0])[:MOST]
    pictures: dict[tuple[str, int], Pixels] = {}
    for name in dict.fromkeys(name for _, name, *_ in best):
        own = [row for _, other, row, *_ in best if other == name]
        try:
            for row, pixels in cut_from_file(project, name, own):
                check_stopped()
                if pixels is not None:
                    pictures[name, row] = outlined(pixels)
        except Cancelled:
            raise
        except (MaskInversionError, OSError):  # the image is gone, or another one
            continue
    hits = tuple(
        FarHit(
            RegionPlace(name, one.id, one.position),
            value,
            label,
            pictures.get((name, row)),
        )
        for value, name, row, one, label in best
    )
    text = query.about(len(hits), total, project.title)
    if left_out:
        text += f" {left_out:,} images have no results, damaged or other ones (model, settings)."
    return FarHits(hits, text)


def _state(region: RegionResult, decision: Decision | None) -> tuple[str, str]:
    """Return decision and class of a region, as a library has them."""
    own = region.suggestion or region.source_label
    if decision is None:
        return "undecided", own
    return decision.status, class_of(decision.status, decision.label, own)
