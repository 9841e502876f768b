"""Fetching weights from the model hub into one visible folder: verified, resumable, cancellable.

open_clip would download by itself, but without progress or cancel, and asks the hub again at
every load. Here the hub is asked once; afterwards a model loads without a network.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from .cache import (
    RECORD,
    Record,
    cache_folder,
    is_offline,
    model_folder,
    read_record,
    weights_on_disk,
)
from .errors import Cancelled, ModelError, OfflineError
from .registry import DEMO, WEIGHTS_FILE, ModelSpec, bundled_folder, get_spec

__all__ = ["cache_folder", "fetch", "is_offline", "model_folder", "weights_on_disk"]

OnProgress = Callable[[int, int], None]
IsCancelled = Callable[[], bool]

_log = logging.getLogger(__name__)

_TORCH_FILE: Final = "open_clip_pytorch_model.bin"
_CHUNK: Final = 1 << 16  # small, so that cancel is felt at once on a slow line
_TIMEOUT: Final = 30.0  # seconds without a byte
_ATTEMPTS: Final = 3
_INTERVAL: Final = 0.1  # seconds between progress reports


def fetch(
    name: str,
    *,
    on_progress: OnProgress | None = None,
    cancelled: IsCancelled | None = None,
) -> Path:
    """Make sure that the weights of a model are on this machine, and verified.

    What is there already is checked against its checksum and fetched again only if damaged. A
    download that was cancelled or broken off goes on where it stopped. Two processes that want
    the same model take turns, and the second finds it there.

    Parameters
    ----------
    name : str
        A name that `get_spec` knows.
    on_progress : callable, optional
        Called with (bytes on disk, bytes in all), at most ten times a second and at the end.
    cancelled : callable, optional
        Asked many times a second; True stops the fetch.

    Returns
    -------
    Path
        The weights file.

    Raises
    ------
    ModelError
        If the model is unknown, the hub refuses, the disk is full or cannot be written, or what
        arrived is not what the hub announced.
    OfflineError
        If the weights are not here and the network cannot or must not be used.
    Cancelled
        If `cancelled` said so.
    """
    spec = get_spec(name)
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    found = _intact(spec)
    if found is not None:
        if on_progress is not None:
            size = found.stat().st_size
            on_progress(size, size)
        return found
    if is_offline():
        raise _offline(spec, "offline mode is on")
    job = _Job(spec, on_progress or (lambda done, total: None), cancelled or (lambda: False))
    try:
        return job.run()
    except OSError as error:
        raise ModelError(
            f"Cannot write the weights of {spec.name} to {model_folder(spec)} ({error}); "
            "set NAPARI_MASKINVERSION_CACHE to a folder with room."
        ) from error


def _intact(spec: ModelSpec) -> Path | None:
    path, record = weights_on_disk(spec), read_record(spec)
    if path is None or record is None:
        return None
    if _sha256(path) == record.sha256:
        return path
    _log.warning("%s is damaged and will be fetched again", path)
    return None


def _sha256(path: Path) -> str:
    import pooch

    return str(pooch.file_hash(str(path), alg="sha256"))


class _Job:
    """One fetch of one model."""

    def __init__(self, spec: ModelSpec, on_progress: OnProgress, cancelled: IsCancelled) -> None:
        self.spec = spec
        self.on_progress = on_progress
        self.cancelled = cancelled
        self.folder = model_folder(spec)

    def run(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._turn():
            found = weights_on_disk(self.spec)
            if found is not None and _intact(self.spec):
                return found  # another process has just fetched it
            url, record = self._ask_hub()
            part = self.folder / f".{record.file}.{record.sha256[:16]}.part"
            for stale in set(self.folder.glob(".*.part")) - {part}:
                stale.unlink()  # of an older version of the weights
            self._download(url, record, part)
            return self._keep(record, part)

    def _turn(self) -> Any:
        """Wait until no other process fetches this model; cancel works while waiting."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / ".lock")
        while True:
            try:
                return lock.acquire(timeout=0.5)
            except Timeout:
                self.check()

    def check(self) -> None:
        if self.cancelled():
            raise Cancelled(
                f"Fetching {self.spec.name} was cancelled; what has arrived is kept, "
                "and the next fetch goes on from there."
            )

    def _ask_hub(self) -> tuple[str, Record]:
        """Return the address of the weights and what the hub says about them."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

        repository, files = _files(self.spec)
        endpoint = os.environ.get("HF_ENDPOINT") or None
        for file in files:
            self.check()
            url = hf_hub_url(repository, file, endpoint=endpoint and endpoint.rstrip("/"))
            try:
                # No token: these files are public, and a stale token would be refused.
                answer = get_hf_file_metadata(url, token=False, timeout=_TIMEOUT)
            except EntryNotFoundError:
                continue
            except HfHubHTTPError as error:
                raise ModelError(
                    f"The model hub refuses {repository}: {_one_line(error)}"
                ) from error
            except Exception as error:  # the kind depends on the hub client's version
                raise _offline(self.spec, "the model hub cannot be reached") from error
            if answer.size is None or not re.fullmatch("[0-9a-f]{64}", answer.etag or ""):
                raise ModelError(
                    f"The model hub gives no checksum for {file} of {repository}; "
                    "nothing is loaded that cannot be verified."
                )
            return url, Record(
                repository=repository,
                file=Path(file).name,
                size=answer.size,
                sha256=str(answer.etag),
                commit=answer.commit_hash or "",
            )
        raise ModelError(f"{repository} holds no weights of open_clip ({' or '.join(files)}).")

    def _download(self, url: str, record: Record, part: Path) -> None:
        import requests

        for attempt in range(1, _ATTEMPTS + 1):
            self.check()
            have = part.stat().st_size if part.exists() else 0
            if have == record.size:
                return
            if have > record.size:
                part.unlink()
                have = 0
            self._check_room(record.size - have)
            try:
                self._transfer(url, record, part, have)
            except requests.HTTPError as error:
                raise ModelError(
                    f"The model hub refuses {record.repository}: {_one_line(error)}"
                ) from error
            except requests.RequestException as error:
                _log.info("attempt %d to fetch %s broke off: %s", attempt, url, error)
                if attempt == _ATTEMPTS:
                    raise _offline(self.spec, "the connection broke off") from error
                time.sleep(0.2 * attempt)
        if part.stat().st_size < record.size:
            raise _offline(self.spec, "the connection broke off")

    def _transfer(self, url: str, record: Record, part: Path, have: int) -> None:
        import pooch

        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with part.open("ab") as file:
            bar = _Bar(self, file, record.size)
            get = pooch.HTTPDownloader(
                progressbar=bar, chunk_size=_CHUNK, headers=headers, timeout=_TIMEOUT
            )
            get(url, file, None)

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise ModelError(
                f"{self.spec.name} needs {_mb(needed)} more but {self.folder} has {_mb(free)} "
                "free; make room, or set NAPARI_MASKINVERSION_CACHE to another folder."
            )

    def _keep(self, record: Record, part: Path) -> Path:
        if _sha256(part) != record.sha256:
            part.unlink()
            raise ModelError(
                f"What arrived for {self.spec.name} is not what the model hub announced "
                "(its checksum differs); it was thrown away. Fetch again."
            )
        # The record first: without it the file counts as absent, so no half state is loadable.
        draft = self.folder / f".{RECORD}.part"
        draft.write_text(json.dumps(asdict(record), indent=2) + "\n", "utf-8")
        draft.replace(self.folder / RECORD)
        path = self.folder / record.file
        part.replace(path)
        self.on_progress(record.size, record.size)
        return path


class _Bar:
    """What pooch takes for a progress bar: reports, stops on cancel, notices a full restart."""

    def __init__(self, job: _Job, file: IO[bytes], size: int) -> None:
        self.job, self.file, self.size = job, file, size
        self._last = 0.0

    @property
    def total(self) -> int:
        return self.size

    @total.setter
    def total(self, announced: int) -> None:
        # Set to the length of the answer before its first byte is written. The whole file in
        # spite of a request for the rest: the server ignores ranges, so start over.
        if announced == self.size:
            self.file.truncate(0)

    def update(self, _: int) -> None:
        self.job.check()
        now = time.monotonic()
        if now - self._last >= _INTERVAL:
            self._last = now
            self.job.on_progress(min(self.file.tell(), self.size), self.size)

    def reset(self) -> None:
        """Nothing: the position in the file is the truth."""

    def close(self) -> None:
        """Nothing to close."""


def _files(spec: ModelSpec) -> tuple[str, list[str]]:
    """Return the repository and its candidate files, the safest format first."""
    parts = spec.source.split("/", 2)
    repository = "/".join(parts[:2])
    return repository, [parts[2]] if len(parts) == 3 else [WEIGHTS_FILE, _TORCH_FILE]


def _offline(spec: ModelSpec, why: str) -> OfflineError:
    size = f" ({spec.size_mb} MB)" if spec.size_mb else ""
    return OfflineError(
        f"The weights of {spec.name}{size} are not complete on this machine and {why}; "
        f"use the bundled model {DEMO!r}, or a checkpoint file of your own."
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
