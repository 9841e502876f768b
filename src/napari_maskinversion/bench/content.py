"""Hashes of what a record was made from, to notice changed images or weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

_PIECE: Final = 1 << 20  # bytes


def content_of(*files: Path, **other: Any) -> str:
    """Return 16 hexadecimal digits of the contents of files and other JSON values.

    Names, folders and times of files do not count. Empty if a file cannot be read.
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
    """Return whether a record was made from these contents."""
    return all(record.get(key) == value for key, value in made_of.items()) and all(made_of.values())


class StaleRecords:
    """Count kept records that were made from something else."""

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

    def lines(self) -> list[str]:
        """Return a line about changed images and one about changed models, if there are any."""
        notes = []
        for counts, what in (
            (self._images, "another image, other masks or other names"),
            (self._models, "other weights"),
        ):
            if counts:
                names = ", ".join(list(counts)[:5]) + ", ..." * (len(counts) > 5)
                total = sum(counts.values())
                notes.append(f"Measured again: {total} kept records of {names} are of {what}.")
        return notes
