"""Hashes of files. A large file is read in pieces; between two of them the work can be stopped."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from .progress import CHECKING, INTERVAL, tick

PIECE: Final = 2**20  # bytes that are read at once


class ByteReader(Protocol):
    """A file that is open for reading bytes."""

    def read(self, count: int, /) -> bytes:
        """Return the next bytes; none at the end."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb", buffering=0) as file:
        return sha256_of_stream(file, os.fstat(file.fileno()).st_size)


def sha256_of_stream(file: ByteReader, size: int) -> str:
    """Return the SHA-256 of what an open file holds; ``size`` is its length for the progress."""
    digest = sha256()
    done, last_tick = 0, monotonic()
    while piece := file.read(PIECE):
        digest.update(piece)
        done += len(piece)
        if monotonic() - last_tick > INTERVAL:
            tick(CHECKING, done, size)
            last_tick = monotonic()
    return digest.hexdigest()
