"""Files at an address that fsspec reads (``s3://bucket/a.tif``), copied for the time of the work.

They pass through the program as paths, which write ``s3:/bucket/a.tif``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Final

from ..base.errors import InputError
from ..base.progress import BEAT, WAITING, tick, with_ticks
from ..base.reading import is_address, sha256_of_stream
from ..base.wording import one_line
from .image_task import ImageTask

_FOLDERS: Final = (".zarr",)  # how names of folders end that are one image
# What storages tell versions by.
_MARKS: Final = re.compile(
    r"(?i)etag|content-md5|digest|last[-_]?modified|versionid|generation|updated|md5hash|crc32c"
    r"|mtime|modified|created"
)


def address_of(path: Path | str) -> str:
    """Return the address that a path stands for."""
    scheme, _, place = Path(path).as_posix().partition(":/")
    return f"{scheme}://{'/' if scheme == 'file' else ''}{place}"


def matching(pattern: str) -> list[Path]:
    """Return the files of a pattern or a folder at an address, by name."""
    with _at(pattern) as (files, place):
        names = files.glob(f"{place.rstrip('/')}/*" if files.isdir(place) else place)
        return [Path(files.unstrip_protocol(name)) for name in sorted(names)]


def exists(path: Path) -> bool:
    """Return whether there is a file, at an address or here."""
    if not is_address(path):
        return path.exists()
    with _at(path) as (files, place):
        return bool(files.exists(place))


def is_one(place: str) -> bool:
    """Return whether an address is that of one file, or of a folder that is one image."""
    with _at(place) as (files, path):
        return bool(files.isfile(path)) or (path.endswith(_FOLDERS) and bool(files.isdir(path)))


def size_and_version(path: Path) -> tuple[int, str]:
    """Return the bytes of a file or folder at an address, and what tells it from other versions.

    A storage tells versions by tags, hashes or times; a file that has none of them is read.
    """
    whole = hashlib.sha256()
    size = 0
    with _at(path) as (files, place):
        files.invalidate_cache(place)
        if files.isdir(place):
            names = sorted(files.find(place))
        else:
            names = [place]
        for name in with_ticks("Files", names):
            about = files.info(name)
            size += int(about.get("size") or 0)
            marks = {}
            for key, mark in about.items():
                if _MARKS.fullmatch(key) and mark:
                    marks[key] = mark
            version: Any = sorted(map(str, marks.items()))
            if not version:
                with files.open(name, "rb") as content:
                    version = sha256_of_stream(content, int(about.get("size") or 0))
            whole.update(f"{name.removeprefix(place)} {about.get('size')} {version}\n".encode())
    return size, whole.hexdigest()


@contextmanager
def here(task: ImageTask) -> Iterator[ImageTask]:
    """Yield a task whose files lie on this machine, as long as the block lasts."""
    image, regions = map(is_address, (task.image, task.regions))
    if regions:
        _, version = size_and_version(task.regions)
        kept = _regions(task.regions, version)
        task = replace(task, regions=Path(kept.name) / task.regions.name)
    if not image:
        yield task
        return
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield replace(task, image=_copied(task.image, Path(folder)))


@lru_cache(maxsize=1)
def _regions(path: Path, version: str) -> TemporaryDirectory[str]:
    """Keep a file about many images; its folder goes when the next one is copied."""
    folder = TemporaryDirectory(ignore_cleanup_errors=True)
    _copied(path, Path(folder.name))
    return folder


def _copied(path: Path, folder: Path) -> Path:
    """Copy a file or folder from an address; return where it is.

    A thread copies it, since a network may keep it waiting. This one ticks meanwhile, and where it
    is stopped it leaves that thread behind, which ends at its next piece.
    """
    copy = folder / path.name
    is_folder = path.name.endswith(_FOLDERS)
    is_stopped = Event()
    done: Future[None] = Future()
    with _at(path) as (files, place):

        def work() -> None:
            try:
                pieces = _stoppable_copying(is_stopped)
                files.get(place, str(copy), recursive=is_folder, callback=pieces)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        Thread(target=work, name="Copying a file", daemon=True).start()
        try:
            while not wait([done], timeout=BEAT).done:
                tick(WAITING, 0, 0, f"Copying {address_of(path)}")
        finally:
            is_stopped.set()
        done.result()
    return copy


def _stoppable_copying(is_stopped: Event) -> Any:
    """Return what fsspec calls between two pieces of a copy; it raises an error to stop it."""
    from fsspec.callbacks import Callback

    def check(*_: Any, **__: Any) -> None:
        if is_stopped.is_set():
            raise InterruptedError("the copy was stopped")

    class Copying(Callback):  # type: ignore[misc]
        def branched(self, path_1: str, path_2: str, **kwargs: Any) -> Any:
            return Copying(hooks=self.hooks)

    return Copying(hooks={"check": check})


@contextmanager
def _at(path: Path | str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address, and the place in it; its errors become one line.

    `image_run.is_transient` looks at their cause.
    """
    from fsspec.core import url_to_fs

    address = address_of(path)
    try:
        yield url_to_fs(address)
    except ImportError as error:
        raise InputError(f"{address}: {error}.") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(error)[:200]}".rstrip(": ")
        raise InputError(f"{address} cannot be read ({reason}).") from error
