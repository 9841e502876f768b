"""Files of the model hub: what it announces, and the record of that next to a file.

open_clip would download by itself, but without progress or cancelling, and it queries the hub at
every load. Here the hub is queried once; afterwards a model loads without a network.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, NonNegativeInt

from .download import TIMEOUT, RemoteFile, Unreachable, one_line
from .errors import InputError, ModelError
from .reading import read_json, validated

RECORD: Final = "source.json"  # lies next to the file


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """Source, size and checksum of a weights file, as the hub announced them."""

    repository: str
    file: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    size: NonNegativeInt
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    commit: str = ""

    def remote_file(self, folder: Path, url: str = "") -> RemoteFile:
        """Return the file in a folder for `download`."""
        content = json.dumps(asdict(self), indent=2) + "\n"
        return RemoteFile(
            url=url,
            path=folder / self.file,
            size=self.size,
            sha256=self.sha256,
            record=(folder / RECORD, content.encode()),
        )


def recorded_weights(folder: Path) -> RemoteFile | None:
    """Read the record next to downloaded weights; None if there is none or it is damaged."""
    try:
        path = folder / RECORD
        return validated(WeightsRecord, read_json(path), path).remote_file(folder)
    except InputError:
        return None


def hub_url(repository: str, file: str) -> str:
    """Return the address of a file on the model hub."""
    from huggingface_hub import hf_hub_url

    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    return hf_hub_url(repository, file, endpoint=endpoint)


def announced_file(repository: str, files: Sequence[str], folder: Path) -> RemoteFile:
    """Query the hub for the first of these files that a repository has; it goes into ``folder``."""
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
