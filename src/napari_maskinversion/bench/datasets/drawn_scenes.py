"""Scenes of drawings that come with the package, as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from ...base.regions import Regions
from ..content import content_of
from ..model_under_test import PROMPT, ModelUnderTest
from .drawings import SceneSource
from .protocol import Sample


class DrawnScenes:
    """Fresh scenes of several objects each, of the test split.

    Parameters
    ----------
    subject : ModelUnderTest
        Whose names are asked among.
    scenes, objects : int
        How many scenes, of how many objects.
    """

    name = "scenes"
    template = PROMPT
    context: float | None = None

    def __init__(self, subject: ModelUnderTest, scenes: int = 40, objects: int = 3) -> None:
        self.classes = subject.names
        self._source, self._objects, self._count = SceneSource(subject, None), objects, scenes
        self._drawn: dict[str, Sample] = {}

    def keys(self) -> Sequence[str]:
        """Numbers."""
        return [f"{number:04d}" for number in range(self._count)]

    def content(self, key: str) -> str:
        """As in `Dataset`; of the drawings."""
        drawn = self.read(key)
        pixels, labels = blake2b(drawn.image.tobytes()).hexdigest(), drawn.labels.tolist()
        return content_of(pixels=pixels, labels=labels)

    def read(self, key: str) -> Sample:
        """Draw; all of them at first, since a scene's seed depends on those before."""
        if not self._drawn:
            cases = self._source.draw("bundled", self._count, self._objects)
            for name, case in zip(self.keys(), cases, strict=True):
                regions = Regions.from_masks(case.masks)
                self._drawn[name] = Sample(case.image, regions, case.labels)
        return self._drawn[key]
