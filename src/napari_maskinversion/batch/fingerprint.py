"""Whether a file is the one that it was, also if it was copied or touched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import BaseModel, field_validator

from ..base.identity import file_sha256
from ..base.reading import is_address
from .addresses import exists, size_and_version


class Fingerprint(BaseModel):
    """What tells a file, or a folder of files (zarr), from others."""

    name: str
    bytes: int  # Of a folder: the sum, and the latest time
    changed: int
    sha256: str  # At an address: what its storage tells versions by

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        # A record from elsewhere must not point to files of other folders.
        if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
            raise ValueError("a file's name without its folder is wanted")
        return name

    @classmethod
    def of(cls, path: Path) -> Self:
        """Describe a file."""
        if is_address(path):
            size, version = size_and_version(path)
            return cls(name=path.name, bytes=size, changed=0, sha256=version)
        size, changed = _size_and_time(path)
        return cls(name=path.name, bytes=size, changed=changed, sha256=digest(path))

    def fits(self, path: Path) -> bool:
        """Return whether a file has this name and content; it is read only if its time differs."""
        if is_address(path):
            return exists(path) and self == Fingerprint.of(path)
        try:
            size, changed = _size_and_time(path)
            if (path.name, size) != (self.name, self.bytes):
                return False
            return changed == self.changed or digest(path) == self.sha256
        except OSError:
            return False


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.is_file())
    else:
        yield path


def _size_and_time(path: Path) -> tuple[int, int]:
    about = [file.stat() for file in _files(path)]
    return sum(one.st_size for one in about), max((one.st_mtime_ns for one in about), default=0)


def digest(path: Path) -> str:
    """Return the hash of a file, or of all files of a folder; raises OSError."""
    if not path.is_dir():
        return file_sha256(path)
    whole = hashlib.sha256()
    for file in _files(path):
        whole.update(f"{file.relative_to(path).as_posix()} {digest(file)}\n".encode())
    return whole.hexdigest()
