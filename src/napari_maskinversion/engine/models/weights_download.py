"""Download model weights from the model hub into one visible folder.

open_clip would download by itself, but without progress or cancelling, and it queries the hub at
every load. Here the hub is queried once; afterwards a model loads without a network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...base.download import (
    TIMEOUT,
    Download,
    IsCancelled,
    OnProgress,
    RemoteFile,
    Unreachable,
    download,
    one_line,
)
from ...base.errors import ModelError
from .registry import WeightsRecord, get_spec, model_folder, recorded_file
from .specs import DEMO, WEIGHTS_FILE, WEIGHTS_FILES, ModelSpec, bundled_folder

OFFLINE_PAGE: Final = (
    "https://napari-maskinversion.github.io/napari-maskinversion/latest/install/#offline"
)


def fetch(
    name: str,
    *,
    on_progress: OnProgress | None = None,
    cancelled: IsCancelled | None = None,
) -> Path:
    """Make sure that the weights of a model are on this machine and intact; return their path.

    ``name`` is one that `get_spec` accepts; otherwise, and with its errors, it does as `download`.
    """
    spec = get_spec(name)
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    return download(
        Download(
            name=spec.name,
            size=spec.size_mb * 1_000_000,
            lock=model_folder(spec) / ".lock",
            alternative=(
                f"{how_to_bring(spec)}, or name a checkpoint file of your own, or use the bundled "
                f"model {DEMO!r}"
            ),
            local=lambda: recorded_file(spec),
            remote=lambda: _announced_file(spec),
        ),
        on_progress=on_progress,
        cancelled=cancelled,
    )


def how_to_bring(spec: ModelSpec) -> str:
    """Return how to get the weights of a model to a machine without a network."""
    return (
        f"run 'napari-maskinversion models fetch {spec.name}' on a machine with a network, and "
        f"copy the folder of the file that it names to {model_folder(spec)} ({OFFLINE_PAGE})"
    )


def _announced_file(spec: ModelSpec) -> RemoteFile:
    """Query the hub for the weights of a model."""
    owner, project, *path = spec.source.split("/", 2)
    files = path or WEIGHTS_FILES
    return announced_file(f"{owner}/{project}", files, model_folder(spec))


def hub_url(repository: str, file: str) -> str:
    """Return the address of a file on the model hub."""
    from huggingface_hub import hf_hub_url

    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    return hf_hub_url(repository, file, endpoint=endpoint)


def announced_file(repository: str, files: Sequence[str], folder: Path) -> RemoteFile:
    """Query the hub for the first of these files that a repository has; it goes into ``folder``.

    Raises
    ------
    ModelError
        If it has none of them, or announces no checksum.
    Unreachable
        If the hub does not answer.
    """
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    for file in files:
        url = hub_url(repository, file)
        try:
            # No token: these files are public, and a stale token would be refused.
            metadata = get_hf_file_metadata(url, token=False, timeout=TIMEOUT)
        except EntryNotFoundError:
            continue
        except HfHubHTTPError as error:
            raise ModelError(f"The model hub refuses {repository}: {one_line(error)}") from error
        except Exception as error:  # its type depends on the version of the hub client
            raise Unreachable("the model hub cannot be reached") from error
        if metadata.size is None or not re.fullmatch("[0-9a-f]{64}", metadata.etag or ""):
            raise ModelError(
                f"The model hub announces no checksum for {file} of {repository}; "
                "weights that cannot be verified are not loaded."
            )
        record = WeightsRecord(
            repository=repository,
            file=Path(file).name,
            size=metadata.size,
            sha256=str(metadata.etag),
            commit=metadata.commit_hash or "",
        )
        return record.remote_file(folder, url)
    raise ModelError(f"{repository} has no weights ({' or '.join(files)}).")
