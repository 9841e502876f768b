"""Measure the cache folder, and delete what this package put there."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from ..base.cache_folder import ACCEPTED, MARKER, cache_folder, is_marked
from ..base.errors import InputError
from .timings import forget


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that can be made or fetched again."""

    name: str  # What the command line calls it
    title: str  # What users see
    stores: tuple[str, ...]  # Its folders in the cache folder


KINDS: Final = (
    Kind("weights", "model weights", ("models", "sam", "captioners")),
    Kind("texts", "text embeddings", ("text",)),
    Kind("captions", "caption banks", ("captions",)),
    Kind("speeds", "speeds measured", ("speed",)),
    Kind("library", "sample library", ("sample-library",)),
    # The second folder is that of earlier versions; nobody reads it any more.
    Kind("exemplars", "accepted regions, for suggestions", (ACCEPTED, "exemplars")),
)
NEVER_CLEARED: Final = {
    "diffusion": "decoders that draw pictures",
    "review": "decisions of reviews",
    "sprites": "drawings that the demo model is trained on",
    "locks": "locks",
}
"""What else there may be, by folder: to be deleted by hand."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Sizes in the cache folder."""

    folder: Path
    sizes: dict[str, int]  # Bytes of each of `KINDS`, by name
    # Bytes of what is never cleared, by folder: decisions of reviews, decoders that draw, and files
    # of others
    never_cleared: dict[str, int]

    @property
    def other(self) -> int:
        """Bytes of everything that is never cleared."""
        return sum(self.never_cleared.values())

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.sizes.values()) + self.other

    def lines(self) -> list[str]:
        """Return one line per kind that is not empty."""
        sizes = [(kind.title, self.sizes[kind.name]) for kind in KINDS]
        largest = sorted(self.never_cleared.items(), key=lambda entry: -entry[1])
        sizes += [(f"{NEVER_CLEARED.get(name, name)}, never cleared", s) for name, s in largest]
        return [f"{title}: {readable(size)}" for title, size in sizes if size]


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was deleted."""

    freed: int  # Bytes
    problems: tuple[str, ...]  # What stayed and why, one sentence each


def usage() -> Usage:
    """Measure the cache folder; a missing folder is empty."""
    root = cache_folder()
    sizes = {}
    clearable: set[Path] = set()
    for kind in KINDS:
        files: list[Path] = []
        for store in kind.stores:
            files += _files(store)
        sizes[kind.name] = sum(map(_size, files))
        clearable.update(files)
    never_cleared: dict[str, int] = {}
    for file in root.rglob("*"):
        if file not in clearable and (size := _size(file)):
            name = file.relative_to(root).parts[0]
            never_cleared[name] = never_cleared.get(name, 0) + size
    return Usage(root, sizes, never_cleared)


def clear(names: Collection[str]) -> Cleared:
    """Delete the files of some kinds.

    Folders that this package made, and marked, are deleted as a whole. Stores that another program
    is working on stay, and so do the decisions of reviews.
    """
    kinds = {kind.name: kind for kind in KINDS}
    unknown = [name for name in names if name not in kinds]
    if unknown:
        raise InputError(f"The cache holds {', '.join(kinds)}; got {', '.join(unknown)}.")
    freed = 0
    problems = list[str]()
    for name in dict.fromkeys(names):
        for store in kinds[name].stores:
            try:
                freed += _clear(store)
            except Timeout:
                problems.append(f"{cache_folder() / store} is in use and was left alone.")
            except OSError as error:
                problems.append(f"{error.filename} cannot be deleted ({error.strerror}).")
    if "speeds" in names:
        forget()
    return Cleared(freed, tuple(problems))


def readable(size: int) -> str:
    """Return a number of bytes for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def _files(store: str) -> list[Path]:
    """All files of a store that we made, its mark last; none of a folder of somebody else's."""
    folder = cache_folder() / store
    if not is_marked(folder):
        return []
    entries = sorted(folder.rglob("*"), key=lambda entry: entry.name == MARKER)
    return [entry for entry in entries if entry.is_symlink() or not entry.is_dir()]


def _clear(store: str) -> int:
    """Delete our files of a store and folders that are empty then; return the bytes freed."""
    files = _files(store)
    freed = 0
    locks = [file for file in files if file.name.endswith(".lock")]
    with ExitStack() as held:
        for lock in locks:
            held.enter_context(FileLock(lock, timeout=0))
        for file in files:
            if file not in locks:
                freed += _delete(file)
    freed += sum(map(_delete, locks))
    folder = cache_folder() / store
    for place in (*sorted(folder.rglob("*"), reverse=True), folder):
        if place.is_dir():
            with suppress(OSError):  # somebody else's files are in it
                place.rmdir()
    return freed


def _delete(file: Path) -> int:
    size = _size(file)
    file.unlink(missing_ok=True)
    return size


def _size(file: Path) -> int:
    """Bytes of a file; 0 for links, folders and marks."""
    with suppress(OSError):
        if file.is_file() and not file.is_symlink() and file.name != MARKER:
            return file.stat().st_size
    return 0
