"""The sidecar's format: JSON lines, written and read. Nothing here touches a disk."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from ..base.errors import InputError
from ..base.identity import ImageIdentity, RegionIdentity, RegionKey
from .decisions import Decision, Suggestion

FORMAT: Final = "napari-maskinversion decisions"
VERSION: Final = 1
Action = Literal["decide", "undo", "redo", "keep"]
_ACTIONS: Final = ("decide", "undo", "redo", "keep")
# Every file begins with these bytes; JSON keeps the order of keys as written.
_MAGIC: Final = b'{"format": "' + FORMAT.encode() + b'"'
_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: the state of one region from then on.

    Attributes
    ----------
    action : {"decide", "undo", "redo", "keep"}
        "keep" repeats what was known before.
    step : int
        Neighbouring lines of one action and step belong together.
    region : RegionIdentity
    state : Decision or None
        None is undecided.
    """

    action: Action
    step: int
    region: RegionIdentity
    state: Decision | None


@dataclass(frozen=True, slots=True)
class Run:
    """A header and the lines under it.

    Attributes
    ----------
    header : dict
        As read, with all that this version does not know.
    image : ImageIdentity
    time : str
    entries : tuple of Entry
    """

    header: dict[str, Any]
    image: ImageIdentity
    time: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds.

    Attributes
    ----------
    runs : tuple of Run
    damaged : int
        Whole lines that could not be understood and were passed over.
    end : int
        Bytes up to the end of the last whole line.
    torn : bool
        Something after ``end`` was never written to its end.
    ended : bool
        The last whole line has its line break.
    """

    runs: tuple[Run, ...] = ()
    damaged: int = 0
    end: int = 0
    torn: bool = False
    ended: bool = True


def write_header(image: ImageIdentity, time: str, provenance: Mapping[str, Any]) -> bytes:
    """Give the line that begins a run."""
    whose = {
        "name": image.name,
        "shape": image.shape,
        "dtype": image.dtype,
        "content": image.content,
    }
    known = {"format": FORMAT, "version": VERSION, "kind": "run", "time": time, "image": whose}
    return write_line({**known, **{k: v for k, v in provenance.items() if k not in known}})


def write_entries(entries: Iterable[Entry]) -> bytes:
    """Give one line for each entry."""
    return b"".join(write_line(_as_json(entry)) for entry in entries)


def write_line(values: Mapping[str, Any]) -> bytes:
    """Give one JSON line, readable for people."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _as_json(entry: Entry) -> dict[str, Any]:
    region, state = entry.region, entry.state
    values: dict[str, Any] = {
        "kind": "decision",
        "action": entry.action,
        "step": entry.step,
        "region": region.key.id,
        "plane": dict(region.key.position),
        "mask": region.mask,
        "box_yxyx": region.box,
    }
    if state is None:
        return values | {"status": "undecided"}
    values |= {"status": state.status, "label": state.label, "time": state.time}
    if state.suggestion is not None:
        suggestion = state.suggestion
        values["suggested"] = {
            "label": suggestion.label,
            "rank": suggestion.rank,
            "similarity": _number(suggestion.similarity),
            "by": suggestion.by,
            "score": _number(suggestion.score),
        }
    return values


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None  # JSON has no NaN


def read(data: bytes, name: str) -> Contents:
    """Read a file's bytes.

    Parameters
    ----------
    data : bytes
    name : str
        What errors call the file.

    Raises
    ------
    InputError
        If it is none of ours, or was written by a newer version; says which.
    """
    _check_ours(data, name)
    runs: list[tuple[dict[str, Any], ImageIdentity, list[Entry]]] = []
    damaged = end = 0
    torn, ended, lost = False, True, False
    for line in _split(data):
        last = not line.endswith(b"\n")
        try:
            page = _parse(line)
            _check_version(page, name)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            if last:
                torn = True
                break
            damaged += bool(line.strip())
            end += len(line)
            continue
        end, ended = end + len(line), not last
        try:
            if page.get("kind") == "run":
                runs.append((page, _image(page["image"]), []))
                lost = False
            elif lost or not runs:
                damaged += 1
            else:
                runs[-1][2].append(_entry(page))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            damaged += 1
            # Lines under a header that cannot be read are of an unknown image.
            lost = lost or page.get("kind") == "run"
    found = tuple(Run(h, i, str(h.get("time", "")), tuple(e)) for h, i, e in runs)
    return Contents(found, damaged, end, torn, ended)


def _split(data: bytes) -> list[bytes]:
    # Not splitlines(): a carriage return alone ends no line here.
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _check_ours(data: bytes, name: str) -> None:
    start = data.removeprefix(_MARK)[: len(_MAGIC)]
    if not _MAGIC.startswith(start):
        raise InputError(
            f"{name} holds no decisions of this plugin and was left as it is; "
            "move it away or rename it."
        )


def _check_version(page: dict[str, Any], name: str) -> None:
    version = page.get("version", VERSION) if page.get("format") == FORMAT else VERSION
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"{name} was written by a newer version of this plugin (format {version}; this one "
            f"reads up to {VERSION}) and was left as it is; update the plugin, or move the file "
            "away."
        )


def _parse(line: bytes) -> dict[str, Any]:
    try:
        page = json.loads(line.removeprefix(_MARK).decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(page, dict):
        raise ValueError("no object")
    return page


def _image(values: dict[str, Any]) -> ImageIdentity:
    shape = tuple(int(side) for side in values["shape"])
    return ImageIdentity(str(values["name"]), shape, str(values["dtype"]), str(values["content"]))


def _entry(page: dict[str, Any]) -> Entry:
    if page["kind"] != "decision" or page["action"] not in _ACTIONS:
        raise ValueError("another kind of line")
    key = RegionKey(int(page["region"]), tuple((a, int(i)) for a, i in page["plane"].items()))
    y0, x0, y1, x1 = (int(edge) for edge in page["box_yxyx"])
    region = RegionIdentity(key, str(page["mask"]), (y0, x0, y1, x1))
    state = None
    if page["status"] != "undecided":
        state = Decision(
            region=key,
            status=page["status"],
            label=str(page["label"]),
            suggestion=_suggestion(page.get("suggested")),
            time=str(page["time"]),
        )
    return Entry(cast("Action", page["action"]), int(page["step"]), region, state)


def _suggestion(values: dict[str, Any] | None) -> Suggestion | None:
    if values is None:
        return None
    numbers = {
        key: math.nan if values.get(key) is None else float(values[key])
        for key in ("similarity", "score")
    }
    return Suggestion(
        label=str(values["label"]), rank=int(values["rank"]), by=str(values["by"]), **numbers
    )
