"""Decisions about regions of a library: they go to the files of their images, as all decisions do.

The library knows no outlines, only numbers and boxes: a later review matches a decision by these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError, MaskInversionError
from ..base.identity import (
    ImageIdentity,
    ImagePlace,
    RegionIdentity,
    RegionKey,
    identify_image,
    plane_of,
)
from ..base.reading import is_address
from ..base.wording import one_line
from ..images.opening import open_image
from ..review.decisions import Decision, Step, Suggestion, class_of
from ..review.multi_image_decisions import DecisionOutcome, DecisionRequest, ImageStep, each_image
from ..review.review import Review
from .store import Store

if TYPE_CHECKING:
    import pandas as pd

    from .library import Library


@dataclass(frozen=True, slots=True)
class _Known:
    """What a library knows of the run of its regions."""

    space: dict[str, Any]

    def provenance(self) -> dict[str, Any]:
        model = {"name": self.space["model"], "fingerprint": self.space["space"].partition("/")[0]}
        return {"software": {}, "model": model, "config": None, "vocabulary": None, "window": None}


def decide_steps(
    library: Library, ids: Sequence[int], request: DecisionRequest
) -> Iterator[ImageStep]:
    """Decide about regions, image by image, in the images' files and then in the library."""

    def decide(_: str, own: Review, rows: Sequence[Any]) -> Step:
        decisions = request.decisions({key_of(row): _suggestion(row) for row in rows})
        return own.decide(*decisions) if decisions else ()

    return _each(library, ids, decide)


def take_back_steps(
    library: Library, ids: Sequence[int], decided: DecisionOutcome
) -> Iterator[ImageStep]:
    """Take back what `decide_steps` did about these regions."""

    def take_back(name: str, own: Review, _: Sequence[Any]) -> Step:
        return own.take_back(decided.steps.get(name, ()))

    table = library.rows(ids=ids)  # also of images that were left out
    own = table["id"][names_of(table).isin(list(decided.steps))]
    return _each(library, own.tolist(), take_back)


def names_of(rows: pd.DataFrame) -> pd.Series[str]:
    """Return what to call the image of each row."""
    names, odd = rows["image"].copy(), (rows["series"] != 0).to_numpy()
    places = map(ImagePlace, names[odd], rows["series"][odd])
    names[odd] = [place.title for place in places]
    return names


def key_of(row: Any) -> RegionKey:
    """Return what results call a region of a library."""
    return RegionKey(int(row.region), plane_of(row.plane))


def _each(
    library: Library,
    ids: Sequence[int],
    decide: Callable[[str, Review, Sequence[Any]], Step],
) -> Iterator[ImageStep]:
    table, spaces = library.rows(ids=ids), library.info()["spaces"]
    parts = {str(name): rows for name, rows in table.groupby(names_of(table), sort=False)}
    missed: dict[str, str] = {}  # Why the library lacks decisions that are saved

    def work(name: str) -> Step:
        rows: list[Any] = list(parts[name].itertuples())
        regions = [
            RegionIdentity(key_of(row), "", (row.y0, row.x0, row.y1, row.x1)) for row in rows
        ]
        image, info = _identified(library, rows[0].id), _Known(spaces[rows[0].space])
        with Review(image, regions, info, file=Path(rows[0].image)) as own:
            step = decide(name, own, rows)
            states = [_state(row, own.decisions.get(key_of(row))) for row in rows]
        try:
            Store(library.folder).update(image.content, states)
        except (MaskInversionError, OSError) as error:
            missed[name] = f"saved with the image; the library could not take it: {one_line(error)}"
        return step

    for name, step, problem in each_image(parts, work):
        yield name, step, problem or missed.get(name, "")


def _identified(library: Library, id: int) -> ImageIdentity:
    place, known = library.image_of(int(id))
    if not place.path or is_address(place.path):
        raise InputError("it is not known where this image is on this computer")
    with open_image(Path(place.path), place.series) as stack:
        image = identify_image(known.name, stack.levels[0])
    if image.content != known.content:
        raise InputError("the image has changed since its regions were added")
    return image


def _state(row: Any, decision: Decision | None) -> dict[str, Any]:
    """Return what a row is by now, as `rows_of` has it."""
    state = {name: getattr(row, name) for name in ("plane", "region", "y0", "x0", "y1", "x1")}
    if decision is None:
        return {**state, "label": row.suggestion, "decision": "undecided", "date": row.date}
    label = class_of(decision.status, decision.label, row.suggestion)
    return {**state, "label": label, "decision": decision.status, "date": decision.time}


def _suggestion(row: Any) -> Suggestion | None:
    if not row.suggestion:
        return None
    sure = float("nan") if row.confidence is None else float(row.confidence)
    return Suggestion(label=row.suggestion, rank=1, similarity=float("nan"), score=sure)
