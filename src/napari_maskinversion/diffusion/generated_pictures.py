"""Drawn pictures, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base import progress_words as words
from ..base.atomic_files import atomic_path, together
from ..base.progress import Tick
from ..base.targets import check_targets

FloatArray = npt.NDArray[np.float32]
RECORD: Final = "imagine.json"
WHOLE_IMAGE: Final = "[CLS]"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Condition:
    """What a picture is drawn from."""

    regions: tuple[int, ...] = ()  # As of `Picture`
    seed: int = 0
    embedding: FloatArray  # (width,). Not normalised.
    # (width,). Embedding of an image of zeros, which the guidance leads away from.
    nothing: FloatArray
    prompt: str = ""  # For decoders with a text encoder of their own


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Picture:
    """A picture of an embedding."""

    # Ids of the regions it shows; empty for [CLS], the embedding of the whole image
    regions: tuple[int, ...]
    seed: int
    pixels: npt.NDArray[np.uint8] = field(repr=False)  # (size, size, 3), uint8

    @property
    def title(self) -> str:
        """What it shows: ``"Region 3"``, ``"Regions 3, 5"`` or ``"[CLS]"``."""
        return title_of(self.regions)

    @property
    def file(self) -> str:
        """Name of its file."""
        return file_of(self.regions, self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureStep(Tick):
    """How many steps of a picture are done; `share` counts all pictures."""

    picture: int  # The present picture, counted from 1, and all of them
    pictures: int

    @property
    def text(self) -> str:
        """One line for users."""
        return words.picture_at_step(self.picture, self.pictures, self.done, self.total)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Imagined:
    """Pictures of regions and of [CLS], and how they were made.

    Attributes
    ----------
    pictures : tuple of Picture
        Region by region, [CLS] last.
    record : mapping
        Contents of `imagine.json`, without the pictures.
    """

    pictures: tuple[Picture, ...]
    record: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Imagined: {len(self.pictures)} pictures by {self.record['decoder']['name']}>"

    def save(self, folder: str | Path) -> list[Path]:
        """Write the pictures and ``imagine.json`` to a folder: all of them, or none.

        Raises
        ------
        InputError
            If the folder has one of these files already, or cannot be written to.
        """
        target = Path(folder).absolute()
        files = [target / picture.file for picture in self.pictures]
        check_targets([*files, target / RECORD], overwrite=False, replaceable=False)
        target.mkdir(parents=True, exist_ok=True)
        with together(target, overwrite=False, keep=True):
            for picture, file in zip(self.pictures, files, strict=True):
                _write(picture, file)
            with atomic_path(target / RECORD) as part:
                part.write_text(self._json(), encoding="utf-8")
        return [*files, target / RECORD]

    def _json(self) -> str:
        pictures = []
        for picture in self.pictures:
            pictures.append(
                {"file": picture.file, "regions": list(picture.regions), "seed": picture.seed}
            )
        return json.dumps({**self.record, "pictures": pictures}, indent=1, allow_nan=False) + "\n"


def title_of(regions: tuple[int, ...]) -> str:
    """Return what a picture of these regions is called."""
    names = ", ".join(map(str, regions))
    if not regions:
        return WHOLE_IMAGE
    if len(regions) == 1:
        return f"Region {names}"
    return f"Regions {names}"


def file_of(regions: tuple[int, ...], seed: int) -> str:
    """Return the name of a picture's file: ``"region-3+5_seed-0.png"``."""
    subject = "cls"
    if regions:
        subject = f"region-{'+'.join(map(str, regions))}"
    return f"{subject}_seed-{seed}.png"


def _write(picture: Picture, file: Path) -> None:
    from PIL import Image

    with atomic_path(file) as part:
        Image.fromarray(picture.pixels).save(part, format="PNG")
