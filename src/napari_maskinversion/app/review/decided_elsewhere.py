"""Decisions about other regions that a classifier learns from: of project, library, before.

No Qt, no napari. It reads files, so it belongs in a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import MaskInversionError
from ...base.identity import ImagePlace
from ...base.progress import tick
from ...base.wording import counted
from ...batch.decided import archive_file, place_in
from ...batch.opened import OpenProject
from ...learning.features import UNKNOWN, HasMeasures, Measured
from ...library.deciding import key_of
from ...library.library import Library
from ...results.export.archive import open_archive
from ...results.recipe import Recipe
from ...results.results import Results
from ...results.spaces import Space
from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, places
from ...review.reporting import decisions_of, image_of

FloatArray = npt.NDArray[np.float32]
_DECIDED = ("accepted", "rejected")
Taught = dict["ExemplarKey", tuple[FloatArray, "str | None", HasMeasures]]
"""Embedding, accepted label (None: rejected) and measures, by the image's hash and the region."""


@dataclass(slots=True, eq=False)
class Elsewhere:
    """Where decisions about other images, or other planes, are."""

    project: Path | None = None
    library: Library | None = None
    accepted: Mapping[ExemplarKey, LabelledEmbedding] = field(default_factory=dict)  # Kept ones
    notes: list[str] = field(default_factory=list)  # What was left out
    # By the image's hash: its name, and where the project has it; without one, the library
    names: dict[str, str] = field(default_factory=dict)
    files: dict[str, ImagePlace] = field(default_factory=dict)
    _other: int = 0  # decisions about regions of other spaces

    def taught(self, results: Results, image: str) -> Taught:
        """Return decisions about regions of the space of these results, but for their own."""
        taught: Taught = {place: (*one, UNKNOWN) for place, one in self.accepted.items()}
        recipe, own = Space.of(results).recipe, places(results, image)
        for one in (self._of_library(recipe), self._of_project(recipe, own)):  # the files win
            taught |= one
        if self._other:
            self.notes.append(
                f"Left out {counted(self._other, 'decision')} about regions of other models or "
                "settings, whose embeddings cannot be compared."
            )
        return {place: one for place, one in taught.items() if place not in own}

    def _of_library(self, recipe: Recipe) -> Taught:
        if self.library is None:
            return {}
        taught: Taught = {}
        rows = self.library.rows(decision=_DECIDED)
        for _, own in rows.groupby("space"):
            ids = own["id"].tolist()
            if self.library.space(ids).recipe.differences(recipe):
                self._other += len(own)
                continue
            named: Iterator[Any] = own.itertuples()
            both = zip(self.library.vectors(ids), self.library.about(ids), strict=True)
            for row, (vector, (content, known)) in zip(named, both, strict=True):
                region = Measured(row.area, (row.y0, row.x0, row.y1, row.x1), known)
                taught[content, key_of(row)] = vector, row.label or None, region
                self.names[content] = PurePath(row.image).name
                if self.project is None:
                    self.files[content] = ImagePlace(row.image, row.series)
        return taught

    def _of_project(self, recipe: Recipe, own: set[ExemplarKey]) -> Taught:
        if self.project is None:
            return {}
        taught: Taught = {}
        project = OpenProject.read(self.project)
        for place, name in enumerate(project.by_name):
            tick("Decisions", place, len(project.by_name))
            try:
                file = archive_file(project, name)
                bundle = None if file is None else open_archive(file)
                if bundle is None:
                    continue
                content = image_of(bundle).content
                decisions = decisions_of(bundle, project.path(name))
            except (MaskInversionError, OSError) as error:
                self.notes.append(f"Left out {name}: {' '.join(str(error).split())}")
                continue
            self.names[content], self.files[content] = name, place_in(project, name)
            is_other = bool(Space.of(bundle.results).recipe.differences(recipe))
            for region in bundle.results.regions:
                key = region.key
                decision = decisions.get(key)
                if decision is None or decision.status not in _DECIDED:
                    taught.pop((content, key), None)
                elif is_other:
                    self._other += (content, key) not in own
                else:
                    taught[content, key] = region.embedding, decision.label or None, region
        return taught
