"""The decision log: JSON lines, a header for each run and a line for each decision.

This module only converts bytes; `decision_file` reads and writes the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict

from ..base.errors import InputError
from ..base.identity import ImageIdentity, RegionIdentity, RegionKey
from ..base.reading import parse_json
from .decisions import Decision, Status, Suggestion

FORMAT: Final = "napari-maskinversion decisions"
VERSION: Final = 1
Action = Literal["decide", "undo", "redo", "keep"]
# The first bytes of every file: JSON keeps the order of keys.
_MAGIC: Final = b'{"format": "' + FORMAT.encode() + b'"'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a region's state from then on."""

    action: Action  # "keep" repeats an earlier state
    step: int  # Consecutive lines with the same action and step are one step
    region: RegionIdentity
    state: Decision | None  # None: undecided


@dataclass(frozen=True, slots=True)
class Run:
    """A header and the entries under it."""

    header: dict[str, Any]  # As read, including keys that this version does not know
    image: ImageIdentity
    time: str
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a decision file."""

    runs: tuple[Run, ...] = ()
    damaged: int = 0  # Complete lines that could not be read; they are skipped
    end: int = 0  # Bytes up to the end of the last complete line
    torn: bool = False  # An incomplete line follows ``end``
    ended: bool = True  # The last complete line has its line break


class _HeaderLine(BaseModel):
    model_config = ConfigDict(extra="allow")

    format: str = FORMAT
    version: int = VERSION
    kind: Literal["run"] = "run"
    time: str = ""
    image: ImageIdentity


class _DecisionLine(BaseModel):
    """A line as it is written; its fields are the keys of the file format."""

    kind: Literal["decision"] = "decision"
    action: Action
    step: int
    region: int
    plane: dict[str, int]
    mask: str
    box_yxyx: tuple[int, int, int, int]
    status: Status
    label: str = ""
    time: str = ""
    suggested: Suggestion | None = None

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """Create the line of an entry. Fields that are not set are not written."""
        region, state = entry.region, entry.state
        decision: dict[str, Any] = {"status": "undecided"}
        if state is not None:
            decision = {"status": state.status, "label": state.label, "time": state.time}
            if state.suggestion is not None:
                decision["suggested"] = state.suggestion
        return cls(
            kind="decision",
            action=entry.action,
            step=entry.step,
            region=region.key.id,
            plane=dict(region.key.position),
            mask=region.mask,
            box_yxyx=region.box,
            **decision,
        )

    def entry(self) -> Entry:
        """Return the entry."""
        key = RegionKey(self.region, tuple(self.plane.items()))
        state = None
        if self.status != "undecided":
            state = Decision(
                region=key,
                status=self.status,
                label=self.label,
                suggestion=self.suggested,
                time=self.time,
            )
        identity = RegionIdentity(key, self.mask, self.box_yxyx)
        return Entry(self.action, self.step, identity, state)


def write_header(image: ImageIdentity, time: str, provenance: Mapping[str, Any]) -> bytes:
    """Return the line that starts a run."""
    header = _HeaderLine(time=time, image=image).model_dump()
    return write_line({**header, **provenance})


def write_entries(entries: Iterable[Entry]) -> bytes:
    """Return one line for each entry."""
    lines = (_DecisionLine.of(entry).model_dump(exclude_unset=True) for entry in entries)
    return b"".join(map(write_line, lines))


def write_line(values: Mapping[str, Any]) -> bytes:
    """Return one line of JSON."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def read(data: bytes, name: str) -> Contents:
    """Read the bytes of a decision file."""
    _check_magic(data, name)
    runs: list[Run] = []
    run: Run | None = None  # None below a header that cannot be read: the image is unknown
    damaged = end = 0
    torn, ended = False, True
    for line in _split(data):
        complete = line.endswith(b"\n")
        try:
            values = _parse(line)
        except ValueError:
            if not complete:
                torn = True
                break
            damaged += bool(line.strip())
            end += len(line)
            continue
        _check_version(values, name)
        end, ended = end + len(line), complete
        try:
            if values.get("kind") == "run":
                run = None
                header = _HeaderLine.model_validate(values)
                run = Run(values, header.image, header.time)
                runs.append(run)
            elif run is None:
                damaged += 1
            else:
                run.entries.append(_DecisionLine.model_validate(values).entry())
        except ValueError:
            damaged += 1
    return Contents(tuple(runs), damaged, end, torn, ended)


def read_saved(data: bytes, name: str) -> tuple[Run, ...]:
    """Read the decisions that a file of results holds."""
    contents = read(data, name) if data.startswith(_MAGIC) else None
    if contents is None or contents.damaged or contents.torn:
        raise InputError(
            f"{name} is damaged: decisions in it cannot be read. Use an earlier copy, or save "
            "results.npz again from the panel."
        )
    return contents.runs


def _split(data: bytes) -> Iterator[bytes]:
    # Not splitlines(), which also splits at a carriage return.
    *lines, last = data.split(b"\n")
    yield from (line + b"\n" for line in lines)
    if last:
        yield last


def _check_magic(data: bytes, name: str) -> None:
    start = data.removeprefix(_BYTE_ORDER_MARK)[: len(_MAGIC)]
    if not _MAGIC.startswith(start):
        raise InputError(
            f"{name} is not a decision file of this plugin and was left as it is; "
            "move or rename it."
        )


def _check_version(values: dict[str, Any], name: str) -> None:
    version = values.get("version") if values.get("format") == FORMAT else None
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"{name} was written by a newer version of this plugin (format {version}; this one "
            f"reads up to {VERSION}) and was left as it is; update the plugin, or move the file "
            "away."
        )


def _parse(line: bytes) -> dict[str, Any]:
    text = line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogatepass")
    values = parse_json(text, "line")
    if not isinstance(values, dict):
        raise ValueError("not an object")
    return values
