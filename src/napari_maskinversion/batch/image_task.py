"""One image of a batch as a task, and the report of it; both can be sent to another process."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from ..base.reading import is_address
from ..engine.models.specs import MODELS
from ..language.labels.vocabulary import Vocabulary
from ..results.settings import RunSettings

ARCHIVES: Final = "archives"
DATA_SET: Final = "regions.parquet"
PART: Final = ".parquet"
ALWAYS: Final = "npz"  # the format of the archive
_LONGEST: Final = 150  # bytes; file systems hold 255, and parts of files are called longer
_READABLE: Final = 40
_DEVICE: Final = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d) *(\.|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTask:
    """An image, what is to be done with it, and where the results go. It can be pickled."""

    name: str
    image: Path
    regions: Path
    settings: RunSettings
    vocabulary: Vocabulary | None  # None for the names in the file of regions
    templates: tuple[str, ...] = ()  # For these names
    colors: Mapping[str, str] = field(default_factory=dict)  # For these names
    formats: tuple[str, ...] = (ALWAYS,)  # What is written besides the data set
    captions: str = ""  # Hash of the captions, the best of which each region gets; "" for none
    bank: Path | None = None  # The folder of their bank; a run needs it
    out: Path  # The folder of the batch
    folder: Path = Path()  # Where a relative path in the settings begins

    @property
    def model(self) -> str:
        """What the model is loaded by: its name, or the path of its file or folder."""
        name = self.settings.model
        is_path = name not in ("", *MODELS) and os.path.exists(self.folder / name)  # noqa: PTH110
        if is_path:
            return str(self.folder / name)
        return name

    def anywhere(self) -> Self:
        """Return the task for a process with another working folder: its paths are absolute."""
        return replace(
            self,
            image=_absolute(self.image),
            regions=_absolute(self.regions),
            bank=None if self.bank is None else self.bank.absolute(),
            out=self.out.absolute(),
            folder=self.folder.absolute(),
        )

    @property
    def archive(self) -> Path:
        """The folder of the image's own files."""
        return self.out / ARCHIVES / file_name(self.name)

    @property
    def part(self) -> Path:
        """The image's part of the data set."""
        return self.out / DATA_SET / part_name(self.name)


def _absolute(path: Path) -> Path:
    if is_address(path):
        return path
    return path.absolute()


def file_name(name: str) -> str:
    """Return the name of an image as one that all file systems can hold."""
    quoted = quote(name, safe=" ")
    # Windows drops a dot or a space at the end, and takes CON.png for the console.
    quoted = re.sub(r"[. ]$", lambda end: f"%{ord(end[0]):02X}", quoted)
    if _DEVICE.match(quoted):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) <= _LONGEST:
        return quoted
    readable = re.sub(r"[^A-Za-z0-9 .-]", "", name)[:_READABLE].strip(" .")
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def part_name(name: str) -> str:
    """Return the file name of an image's part of a data set.

    All parts lie in one folder, since Spark reads no others; readers pass over a leading _.
    """
    quoted = file_name(name)
    return f"{'%5F' + quoted[1:] if quoted.startswith('_') else quoted}{PART}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of an image."""

    name: str
    regions: int = 0
    problem: str = ""  # One line that says why there are no results; else empty
    bare: bool = False  # Whether that is because it has no regions
    internal: bool = False  # Whether this program is to blame for it
    # Whether the disk of the results has no room left, for other images neither
    is_disk_full: bool = False
    stopped: bool = False  # Whether the work was stopped before its end
    kept: bool = False  # Whether the results were there already
    notes: tuple[str, ...] = ()  # Choices that the user may not know of
