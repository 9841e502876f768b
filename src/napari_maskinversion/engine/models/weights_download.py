"""Fetching weights from the model hub into one visible folder: verified, resumable, cancellable.

open_clip would download by itself, but without progress or cancel, and asks the hub again at
every load. Here the hub is asked once; afterwards a model loads without a network.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ...base.atomic_files import write_whole
from ...base.cache_folder import cache_folder, is_offline
from ...base.download import (
    TIMEOUT,
    IsCancelled,
    OnProgress,
    Transfer,
    Wanted,
    one_line,
    sha256_of,
    take_turn,
)
from ...base.errors import Cancelled, ModelError, OfflineError
from .registry import get_spec
from .specs import DEMO, WEIGHTS_FILE, ModelSpec, bundled_folder
from .weights_folder import RECORD, Record, model_folder, read_record, weights_on_disk

__all__ = ["cache_folder", "fetch", "is_offline", "model_folder", "weights_on_disk"]

_log = logging.getLogger(__name__)

_TORCH_FILE: Final = "open_clip_pytorch_model.bin"


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
    if sha256_of(path) == record.sha256:
        return path
    _log.warning("%s is damaged and will be fetched again", path)
    return None


class _Job:
    """One fetch of one model."""

    def __init__(self, spec: ModelSpec, on_progress: OnProgress, cancelled: IsCancelled) -> None:
        self.spec = spec
        self.on_progress = on_progress
        self.cancelled = cancelled
        self.folder = model_folder(spec)

    def run(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        with take_turn(self.folder / ".lock", self.check):
            found = weights_on_disk(self.spec)
            if found is not None and _intact(self.spec):
                return found  # another process has just fetched it
            url, record = self._ask_hub()
            part = self.folder / f".{record.file}.{record.sha256[:16]}.part"
            for stale in set(self.folder.glob(".*.part")) - {part}:
                stale.unlink()  # of an older version of the weights
            wanted = Wanted(
                name=self.spec.name,
                url=url,
                size=record.size,
                sha256=record.sha256,
                place=record.repository,
                server="The model hub",
                promised="what the model hub announced",
            )
            transfer = Transfer(
                wanted,
                on_progress=self.on_progress,
                check=self.check,
                offline=lambda why: _offline(self.spec, why),
            )
            transfer.fetch(part)
            return self._keep(record, part)

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
                answer = get_hf_file_metadata(url, token=False, timeout=TIMEOUT)
            except EntryNotFoundError:
                continue
            except HfHubHTTPError as error:
                raise ModelError(
                    f"The model hub refuses {repository}: {one_line(error)}"
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

    def _keep(self, record: Record, part: Path) -> Path:
        # The record first: without it the file counts as absent, so no half state is loadable.
        about = json.dumps(asdict(record), indent=2) + "\n"
        write_whole(self.folder / RECORD, about.encode())
        path = self.folder / record.file
        part.replace(path)
        self.on_progress(record.size, record.size)
        return path


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
