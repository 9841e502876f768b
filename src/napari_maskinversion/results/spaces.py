"""Which embeddings can be compared: those of one space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from ..base.errors import InputError
from ..base.reading import parse_json
from .region_result import SMALLER_INPUT
from .results import Results
from .settings import RunSettings, fields_of

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
        # None is the model's own, whatever the windows of an image are, unless memory ran out;
        # where one was chosen, smaller ones mean that.
        side = info.settings.resolution
        halved = [
            one.resolution
            for one in results.windows
            if one.resolution and (side or one.memory_note.startswith(SMALLER_INPUT))
        ]
        return cls.planned(info.settings, info.space, info.embed_dim, halved)

    @classmethod
    def planned(
        cls, settings: RunSettings, space: str, width: int, halved: Sequence[int] = ()
    ) -> Self:
        """Return the space of a run: its settings, and the space that its `RunInfo` tells."""
        groups, side = ("inversion",) * settings.method.uses_inversion, settings.resolution
        groups += ("input", "window")
        about: dict[str, Any] = {
            "model": settings.model,
            "architecture": settings.architecture,
            "space": space,
            **{
                one.key: settings.get(one.key)
                for one in fields_of(*groups)
                if one.key not in _NO_DIFFERENCE
            },
            "resolution": min([side, *halved]) if side else min(halved, default=None),
        }
        return cls(about=json.dumps(about, sort_keys=True), width=width)

    def differences(self, other: Space) -> list[str]:
        """Return what makes embeddings of another space incomparable, as "steps 10 instead of 20".

        A model may have another name where its file lies elsewhere: its hash counts.
        """
        ours, theirs = self.values, other.values
        hashes = [str(one["space"]).partition("/") for one in (ours, theirs)]
        different = []
        if hashes[0][0] != hashes[1][0]:
            same = ours["model"] == theirs["model"]
            now = f"other weights of {ours['model']}" if same else f"model {ours['model']}"
            different.append(f"{now} instead of {theirs['model']}")
        if hashes[0][2] != hashes[1][2]:
            names = [one[2] or "maskinversion" for one in hashes]
            different.append(f"method {names[0]} instead of {names[1]}")
        keys = ours.keys() & theirs.keys() - {"model", "architecture", "space"}
        return different + [
            f"{key.rpartition('.')[2]} {ours[key]} instead of {theirs[key]}"
            for key in sorted(keys)
            if ours[key] != theirs[key]
        ]


def check_alike(spaces: Iterable[Space]) -> None:
    """Refuse images whose embeddings cannot be compared."""
    known = list(spaces)
    for space in known[1:]:
        if differences := space.differences(known[0]):
            raise InputError(
                f"The images were run with different settings ({', '.join(differences)}), so "
                "their embeddings cannot be compared; run them again with the same ones."
            )
