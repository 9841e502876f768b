"""The measured model and its candidate names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError
from ..demo_model.vocabulary import NAMES, OBJECTS, REAL, VOCABULARY_FILE, Name
from ..engine.models.backbone import Backbone
from ..engine.models.specs import bundled_folder

PROMPT: Final = "a photo of a {}"


@dataclass(frozen=True)
class ModelUnderTest:
    """A model and its names."""

    model: Backbone
    names: tuple[str, ...]  # Candidate names for regions of drawings
    # Whether the names are the model's own (``vocabulary.txt`` next to its weights). Otherwise the
    # bundled model's names are used.
    taught: bool

    @property
    def visual(self) -> Any:
        """The image tower; open_clip has no type hints."""
        return cast("Any", self.model.clip).visual

    @property
    def drawn(self) -> tuple[Name, ...]:
        """Names that have drawings."""
        return tuple(n for n in OBJECTS if n.name in self.names)

    def knows(self, kind: str) -> bool:
        """Return whether the model knows the names of a real kind."""
        real = {n.name for n in REAL if n.group == kind}
        return not self.taught or real <= set(self.names)

    @cached_property
    def texts(self) -> NDArray[np.float32]:
        """Unit text embeddings (names, e) of the names."""
        return self.model.encode_text([PROMPT.format(n) for n in self.names])

    def real_texts(self, kind: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return a kind's indices into `demo_model.domains.NAMES`, and unit text embeddings."""
        members = np.array([i for i, name in enumerate(REAL) if name.group == kind])
        template = REAL[members[0]].templates[0]
        return members, self.model.encode_text([template.format(REAL[i].name) for i in members])

    def resolutions(self) -> list[int]:
        """Return resolutions to choose from, in pixels, the native one first."""
        native, patch = self.model.native_resolution, self.model.patch_size
        others = [native * 0.75, native * 1.25, native * 1.5, self.model.working_resolution]
        sides = [round(side / patch) * patch for side in others]
        return [native, *sorted(set(sides) - {native})]

    def resolution(self, wanted: int | None) -> int:
        """Return the wanted resolution, or the model's working resolution."""
        if wanted is not None and wanted < 2 * self.model.patch_size:
            raise InputError(
                f"--resolution must be at least {2 * self.model.patch_size} for {self.model.name}; "
                f"got {wanted}."
            )
        return self.model.working_resolution if wanted is None else wanted


def subject_of(model: Backbone) -> ModelUnderTest:
    """Return a loaded model with its names."""
    listed = _vocabulary_file(model)
    if listed is None:
        return ModelUnderTest(model, NAMES, taught=False)
    names: Sequence[str] = listed.read_text("utf-8").splitlines()
    subject = ModelUnderTest(model, tuple(n for n in names if n), taught=True)
    if len(subject.drawn) < 6:
        raise InputError(
            f"{listed.name} of {model.name} holds {len(subject.drawn)} names with drawings; "
            "scenes need six."
        )
    return subject


def _vocabulary_file(model: Backbone) -> Path | None:
    if model.spec is None:
        return None
    folder = bundled_folder() if model.spec.bundled else Path(model.spec.source)
    file = folder / VOCABULARY_FILE
    return file if model.spec.source and file.is_file() else None
