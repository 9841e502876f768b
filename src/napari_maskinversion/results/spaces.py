"""Which embeddings can be compared: embeddings of one space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ..base.errors import InputError
from ..base.reading import parse_json
from ..engine.methods.registry import MASKINVERSION
from .recipe import Recipe, Weights, space_key
from .region_result import SMALLER_INPUT
from .results import Results
from .settings import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The embeddings of one model, method and setting; `about` tells them from others."""

    id: int = 0  # In its library
    about: str  # JSON, its keys in order
    width: int  # Numbers of an embedding
    file: str = ""  # Name of the file of its vectors
    count: int = 0  # Vectors in it, with those of regions that are gone

    @property
    def values(self) -> dict[str, Any]:
        """What the embeddings were computed with."""
        values: dict[str, Any] = parse_json(self.about, "space")
        return values

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self.values["model"])

    @property
    def architecture(self) -> str | None:
        """Architecture of a checkpoint file; None for the model's own."""
        architecture: str | None = self.values["architecture"]
        return architecture

    @property
    def fingerprint(self) -> str:
        """Hash of the model."""
        return str(self.values["space"]).partition("/")[0]

    @property
    def recipe(self) -> Recipe:
        """What other embeddings must share to be comparable with these."""
        facts = self.values
        fingerprint, _, method = str(facts.pop("space")).partition("/")
        weights = Weights(fingerprint, str(facts.pop("model")))
        facts.pop("architecture", None)  # The hash of the model tells it
        about = {"weights": weights, "method.name": method or MASKINVERSION}
        return Recipe(embedding={**about, **facts})

    @classmethod
    def of(cls, results: Results) -> Self:
        """Return the space of results."""
        info = results.info
        halved = smaller_inputs(results)
        return cls.planned(
            info.settings,
            info.fingerprint,
            info.embed_dim,
            halved,
            method_sha256=info.method_sha256,
        )

    @classmethod
    def planned(
        cls,
        settings: RunSettings,
        fingerprint: str,
        width: int,
        halved: Sequence[int] = (),
        *,
        method_sha256: str = "",
    ) -> Self:
        """Return the space of a run: its settings, and the hashes of its model and method."""
        recipe = Recipe.of_space(settings, fingerprint, halved, method_sha256=method_sha256)
        facts = dict(recipe.embedding)
        for key in ("weights", "method.name", "method.weights"):
            del facts[key]  # Told otherwise, or the path of a file
        about = {
            "model": settings.model,
            "architecture": settings.architecture,
            "space": space_key(fingerprint, settings.method),
            **facts,
        }
        return cls(about=json.dumps(about, sort_keys=True), width=width)


def smaller_inputs(results: Results) -> list[int]:
    """Return the sides of inputs that were smaller than wanted because memory ran out."""
    # Where no side was wanted, the windows of an image have several.
    wanted = results.info.settings.resolution
    sides = []
    for window in results.windows:
        if window.resolution and (wanted or window.memory_note.startswith(SMALLER_INPUT)):
            sides.append(window.resolution)
    return sides


def check_alike(spaces: Iterable[Space]) -> None:
    """Refuse images whose embeddings cannot be compared."""
    first, *later = [space.recipe for space in spaces] or [Recipe()]
    for recipe in later:
        if different := recipe.differences(first):
            texts = ", ".join(difference.text for difference in different)
            raise InputError(
                f"The images were run with different settings ({texts}), so their embeddings "
                "cannot be compared; run them again with the same ones."
            )
