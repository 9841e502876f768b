"""Decisions about other regions that a classifier learns from: of project, library, before.

No Qt, no napari. It reads files, so it belongs in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ...base.identity import ImagePlace
from ...base.wording import counted
from ...batch.opened import OpenProject
from ...batch.project_index import ProjectIndex, place_in
from ...learning.features import UNKNOWN
from ...learning.samples import LabelledEmbedding, RegionOfImage, TrainingSample
from ...library.library import Library
from ...library.training_samples import decided_places, places_without_lesson, read_samples
from ...results.recipe import Recipe
from ...results.results import Results
from ...results.spaces import Space

Samples = dict[RegionOfImage, TrainingSample]


def places_of(results: Results, image_hash: str) -> set[RegionOfImage]:
    """Return where the regions of results are: other planes of the image are elsewhere."""
    return {(image_hash, region.key) for region in results.regions}


@dataclass(slots=True, eq=False)
class Elsewhere:
    """Where decisions about other images, or other planes, are."""

    project: Path | None = None
    library: Library | None = None
    # Regions that were accepted earlier
    accepted: Mapping[RegionOfImage, LabelledEmbedding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # What was left out
    # By the image's hash: its name, and where the project has it; without one, the library
    names: dict[str, str] = field(default_factory=dict)
    files: dict[str, ImagePlace] = field(default_factory=dict)
    _other: int = 0  # Decisions about regions of other spaces

    def samples(self, results: Results, image_hash: str) -> Samples:
        """Return decisions about regions of the space of these results, but for their own."""
        recipe = Space.of(results).recipe
        places_here = places_of(results, image_hash)
        samples: Samples = {}
        for place, (embedding, label) in self.accepted.items():
            samples[place] = TrainingSample(embedding, label, *place, UNKNOWN)
        if self.library is not None:
            self._add(
                samples, self.library, recipe, places_here, lambda file: PurePath(file.path).name
            )
            if self.project is not None:
                self.files.clear()  # places are those of the project
        if self.project is not None:  # what its files say wins
            project = OpenProject.read(self.project)
            index = ProjectIndex.fresh(project)
            self.notes += [f"Left out {name}: {why}" for name, why in index.problems.items()]
            for place in places_without_lesson(index.library.store):
                samples.pop(place, None)
            names = {place_in(project, name): name for name in project.by_name}
            self._add(
                samples,
                index.library,
                recipe,
                places_here,
                lambda file: names.get(file, file.title),
            )
        if self._other:
            self.notes.append(
                f"Left out {counted(self._other, 'decision')} about regions of other models or "
                "settings, whose embeddings cannot be compared."
            )
        return {place: sample for place, sample in samples.items() if place not in places_here}

    def _add(
        self,
        samples: Samples,
        library: Library,
        recipe: Recipe,
        places_here: set[RegionOfImage],
        name_of: Callable[[ImagePlace], str],
    ) -> None:
        """Add the decisions that a library has about regions that can be compared."""
        comparable: list[int] = []
        incomparable: list[int] = []
        for number, space in library.spaces().items():
            if space.recipe.differences(recipe):
                incomparable.append(number)
            else:
                comparable.append(number)
        for stored in read_samples(library.store, comparable, {}):
            image_hash, file = stored.sample.image_hash, ImagePlace(stored.image, stored.series)
            samples[stored.place] = stored.sample
            self.names[image_hash], self.files[image_hash] = name_of(file), file
        for place in decided_places(library.store, incomparable):
            self._other += place not in places_here
