"""What fills the cache folder, and taking out what this package put there, nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..base.cache_folder import cache_folder
from ..base.errors import InputError
from ..engine.models.weights_folder import RECORD
from ..language.captions import store as caption_store
from ..review import exemplar_store

_LOCK: Final = ".lock"
_PARTS: Final = re.compile(r"\..+\.[0-9a-f]{16}\.part|\.source\..*part")
_SAM: Final = re.compile(r"\.?(sam_vit_[bhl]_[0-9a-f]{6}\.pth)(\.[0-9a-f]{16}\.part|\.lock)?")
_TEXT: Final = re.compile(r"[0-9a-f]{16}\.sqlite(-journal|-wal|-shm)?")
_SPEED: Final = re.compile(r"[0-9a-f]{16}\.json|\.[0-9a-f]{16}\..+\.part")
_EXEMPLARS: Final = re.compile(
    rf"[0-9a-f]{{16}}\.sqlite(-journal|-wal|-shm|{re.escape(exemplar_store.ASIDE)})?"
)
_BANK: Final = (caption_store.TEXTS, caption_store.VECTORS, caption_store.RECORD)
_BANK_PART: Final = re.compile(r"\.(captions|vectors|bank)\..+\.part")


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of ours with one thing in it: a model's weights, a bank, a kind's loose files.

    Attributes
    ----------
    folder : Path
    files : tuple of Path
        Those that are ours. Links are nobody's.
    lock : str
        Name of the file that whoever works on it holds locked; "" where nobody does.
    """

    folder: Path
    files: tuple[Path, ...]
    lock: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that can be made or fetched again.

    Attributes
    ----------
    name : str
        What the command line calls it.
    title : str
        What people call it.
    stores : callable
        Takes the cache folder and gives what is there.
    """

    name: str
    title: str
    stores: Callable[[Path], Iterator[Store]]


def _weights(root: Path) -> Iterator[Store]:
    for folder in _folders(root / "models"):
        names = {RECORD, _recorded(folder)}
        files = [f for f in _plain_files(folder) if f.name in names or _PARTS.fullmatch(f.name)]
        if files:
            yield Store(folder, (*files, *_lock_of(folder)), _LOCK)
    checkpoints: dict[str, list[Path]] = {}
    for file in _plain_files(root / "sam"):
        if match := _SAM.fullmatch(file.name):
            checkpoints.setdefault(match[1], []).append(file)
    for name, files in checkpoints.items():
        yield Store(root / "sam", tuple(files), f".{name}.lock")


def _texts(root: Path) -> Iterator[Store]:
    yield from _loose(root / "text", _TEXT)


def _banks(root: Path) -> Iterator[Store]:
    for model in _folders(root / "captions"):
        for folder in _folders(model):
            files = [
                f for f in _plain_files(folder) if f.name in _BANK or _BANK_PART.fullmatch(f.name)
            ]
            if any(file.name in _BANK for file in files):
                yield Store(folder, (*files, *_lock_of(folder)), _LOCK)


def _speeds(root: Path) -> Iterator[Store]:
    yield from _loose(root / "speed", _SPEED)


def _exemplars(root: Path) -> Iterator[Store]:
    yield from _loose(root / exemplar_store.FOLDER, _EXEMPLARS)


KINDS: Final = (
    Kind("weights", "model weights", _weights),
    Kind("texts", "text embeddings", _texts),
    Kind("captions", "caption banks", _banks),
    Kind("speeds", "speeds measured", _speeds),
    Kind("exemplars", "accepted regions, for suggestions", _exemplars),
)


@dataclass(frozen=True, slots=True)
class Usage:
    """How full the cache folder is.

    Attributes
    ----------
    folder : Path
    sizes : dict
        Bytes of each of `KINDS`, by name.
    other : int
        Bytes of everything else: decisions of reviews, and what others put there.
    """

    folder: Path
    sizes: dict[str, int]
    other: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.sizes.values()) + self.other

    def lines(self) -> list[str]:
        """Say it, a line each; what is empty is left out."""
        said = [(kind.title, self.sizes[kind.name]) for kind in KINDS]
        said.append(("everything else, never cleared", self.other))
        return [f"{title}: {readable(size)}" for title, size in said if size]


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was taken out.

    Attributes
    ----------
    freed : int
        Bytes.
    problems : tuple of str
        What stayed and why, a sentence each.
    """

    freed: int
    problems: tuple[str, ...]


def usage() -> Usage:
    """Measure the cache folder; a folder that is not there yet is empty."""
    root = cache_folder()
    sizes = {
        kind.name: sum(_size(file) for store in kind.stores(root) for file in store.files)
        for kind in KINDS
    }
    everything = sum(_size(file) for file in root.rglob("*")) if root.is_dir() else 0
    return Usage(root, sizes, max(everything - sum(sizes.values()), 0))


def clear(names: Collection[str]) -> Cleared:
    """Delete what is kept of some kinds.

    Only files that this package is known to have written are deleted, then folders that are empty.
    What another program is working on stays, and so do the decisions of reviews.

    Parameters
    ----------
    names : collection of str
        Of `KINDS`.

    Raises
    ------
    InputError
        For a name that is none of them.
    """
    known = {kind.name: kind for kind in KINDS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"The cache holds {', '.join(known)}; got {', '.join(unknown)}.")
    root, freed, problems = cache_folder(), 0, list[str]()
    for name in dict.fromkeys(names):
        for store in list(known[name].stores(root)):
            gone, problem = _clear(store)
            freed += gone
            problems += [problem] if problem else []
            _remove_empty(store.folder, root)
    if "speeds" in names:
        from .timings import forget

        forget()
    return Cleared(freed, tuple(problems))


def readable(size: int) -> str:
    """Say a number of bytes for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def _clear(store: Store) -> tuple[int, str]:
    """Delete a store's files; give the bytes freed, and why some are left."""
    if not store.lock:
        return _delete(store.files)
    from filelock import FileLock, Timeout

    try:
        # Nobody may be fetching or building here.
        with FileLock(store.folder / store.lock, timeout=0):
            outcome = _delete([file for file in store.files if file.name != store.lock])
    except Timeout:
        return 0, f"{store.folder} is in use and was left alone."
    except OSError as error:
        return 0, f"{store.folder} cannot be changed ({error.strerror})."
    with suppress(OSError):
        (store.folder / store.lock).unlink(missing_ok=True)
    return outcome


def _delete(files: Collection[Path]) -> tuple[int, str]:
    freed, problem = 0, ""
    for file in files:
        try:
            size = _size(file)
            file.unlink(missing_ok=True)
            freed += size
        except OSError as error:
            problem = f"{file} could not be deleted ({error.strerror})."
    return freed, problem


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder and those above it, up to the cache folder, while they are empty."""
    while folder != root and root in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _loose(folder: Path, pattern: re.Pattern[str]) -> Iterator[Store]:
    files = [file for file in _plain_files(folder) if pattern.fullmatch(file.name)]
    if files:
        yield Store(folder, tuple(files))


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(place for place in folder.iterdir() if place.is_dir())
    return []


def _plain_files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(f for f in folder.iterdir() if f.is_file() and not f.is_symlink())
    return []


def _lock_of(folder: Path) -> list[Path]:
    return [file for file in _plain_files(folder) if file.name == _LOCK]


def _recorded(folder: Path) -> str:
    """Give the name of the weights that a record beside them names."""
    with suppress(OSError, ValueError, AttributeError):
        name = json.loads((folder / RECORD).read_text("utf-8")).get("file")
        if isinstance(name, str):
            return name
    return RECORD


def _size(file: Path) -> int:
    with suppress(OSError):
        if file.is_file() and not file.is_symlink():
            return file.stat().st_size
    return 0
