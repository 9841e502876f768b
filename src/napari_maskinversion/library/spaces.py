"""Which embeddings can be compared: those of one space."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from ..base.reading import parse_json
from ..results.region_result import SMALLER_INPUT
from ..results.results import Results
from ..results.settings import fields_of

# What changes no embedding but for rounding.
_NO_DIFFERENCE: Final = {"chunk_size", "inversion.route", "inversion.keep_last_step_heatmaps"}


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

    @classmethod
    def of(cls, results: Results) -> Self:
        """Return the space of results."""
        info = results.info
        groups = ("inversion",) * info.method.uses_inversion + ("input", "window")
        # None is the model's own, whatever the windows of an image are, unless memory ran out;
        # where one was chosen, smaller ones mean that.
        side = info.settings.resolution
        halved = [
            one.resolution
            for one in results.windows
            if one.resolution and (side or one.memory_note.startswith(SMALLER_INPUT))
        ]
        about: dict[str, Any] = {
            "model": info.model,
            "architecture": info.settings.architecture,
            "space": info.space,
            **{
                one.key: info.settings.get(one.key)
                for one in fields_of(*groups)
                if one.key not in _NO_DIFFERENCE
            },
            "resolution": min([side, *halved]) if side else min(halved, default=None),
        }
        return cls(about=json.dumps(about, sort_keys=True), width=info.embed_dim)
