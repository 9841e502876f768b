"""Data set of scenes composed from the bundled drawings."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from ...base.regions import Regions
from ..content import content_of
from ..model_under_test import PROMPT, ModelUnderTest
from .drawings import SceneSource
from .protocol import Sample


class DrawnScenes:
    """New scenes of the test split, each with several objects."""

    name = "scenes"
    template = PROMPT
    context: float | None = None

    def __init__(self, subject: ModelUnderTest, scenes: int = 40, objects: int = 3) -> None:
        self.classes = subject.names
        self._source, self._objects, self._count = SceneSource(subject, None), objects, scenes
        self._drawn: dict[str, Sample] = {}

    def keys(self) -> Sequence[str]:
        """Return the numbers of the scenes."""
        return [f"{number:04d}" for number in range(self._count)]

    def content(self, key: str) -> str:
        """See `Dataset.content`; here of the drawings."""
        drawn = self.read(key)
        pixels, labels = blake2b(drawn.image.tobytes()).hexdigest(), drawn.labels.tolist()
        return content_of(pixels=pixels, labels=labels)

    def read(self, key: str) -> Sample:
        """Draw a scene. The first call draws all: a scene's seed depends on those before it."""
        if not self._drawn:
            cases = self._source.draw("bundled", self._count, self._objects)
            for name, case in zip(self.keys(), cases, strict=True):
                regions = Regions.from_masks(case.masks)
                self._drawn[name] = Sample(case.image, regions, case.labels)
        return self._drawn[key]
