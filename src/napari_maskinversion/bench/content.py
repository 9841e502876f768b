"""What a record was made of, so that other images or weights under old names are noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

_PIECE: Final = 1 << 20  # bytes


def content_of(*files: Path, **other: Any) -> str:
    """16 hexadecimal digits of the bytes of files, and of whatever else JSON can hold.

    A file's name, place and time do not count. Empty where a file cannot be read.
    """
    digest = blake2b(digest_size=8)
    try:
        for file in files:
            one = blake2b()
            with file.open("rb") as stream:
                while piece := stream.read(_PIECE):
                    one.update(piece)
            digest.update(one.digest())
    except OSError:
        return ""
    digest.update(json.dumps(other, sort_keys=True).encode())
    return digest.hexdigest()


def is_of(record: Mapping[str, Any], made_of: Mapping[str, str]) -> bool:
    """Whether a record says that it was made of this."""
    return all(record.get(key) == value for key, value in made_of.items()) and all(made_of.values())


class Renewed:
    """Counts kept records that were made of something else."""

    def __init__(self) -> None:
        self._images: dict[str, int] = {}
        self._models: dict[str, int] = {}

    def note(
        self, record: Mapping[str, Any], made_of: Mapping[str, str], model: str, image: str
    ) -> None:
        """Count a record of a model and an image."""
        other = record.get("content") != made_of["content"]
        counts, name = (self._images, image) if other else (self._models, model)
        counts[name] = counts.get(name, 0) + 1

    def told(self) -> list[str]:
        """One line for people for images, and one for models, where there were any."""
        lines = []
        for counts, what in (
            (self._images, "another image, other masks or other names"),
            (self._models, "other weights"),
        ):
            if counts:
                names = ", ".join(list(counts)[:5]) + ", ..." * (len(counts) > 5)
                total = sum(counts.values())
                lines.append(f"Measured anew: {total} kept records of {names} are of {what}.")
        return lines
