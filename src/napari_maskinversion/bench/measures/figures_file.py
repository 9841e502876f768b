"""What is measured, kept on disk as it comes: figures part by part, and records line by line."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, StrictInt

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.locks import hold
from ...base.reading import MOST_JSON, parse_json, read_bytes, validated

FORMAT: Final = 1
ENDING: Final = ".records.jsonl"
_BEGIN: Final = b'{"format": '
_ADVICE: Final = "name another file, or say --overwrite to measure again"
Tell = Callable[[float], None]  # receives the share done
Report = Callable[[str, float], None]
Figures = dict[str, Any]
Key = tuple[Any, ...]


class _Page(BaseModel):
    kind: Annotated[str, Field(min_length=1)]
    settings: Annotated[Figures, Field(min_length=1)]
    parts: Annotated[dict[str, Figures], Field(min_length=1)]


class _Header(BaseModel):
    format: StrictInt
    kind: str
    settings: Figures


def typed_command() -> str:
    """Return the command as it was typed, with absolute paths cut to their last part."""
    words = [Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:]]
    text = shlex.join(["napari-maskinversion", *words])
    return text.encode("utf-8", "backslashreplace").decode()  # names of files can hold any bytes


def now() -> str:
    """Return the time as figures show it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


# -- figures ----------------------------------------------------------------------------------


def figures_page(kind: str, settings: Figures, parts: dict[str, Any]) -> Figures:
    """Return the content of a figures file."""
    return {
        "kind": kind,
        "format": FORMAT,
        "settings": settings,
        "command": typed_command(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "torch": version("torch"),
        },
        "parts": parts,
    }


def write_figures(page: Figures, file: Path) -> None:
    """Write a figures file, whole or not at all."""
    with atomic_path(file, durable=True) as part:
        part.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


def read_figures(file: Path) -> Figures:
    """Read a figures file."""
    text = read_bytes(file, "file of figures", most=MOST_JSON)
    try:
        values = parse_json(text, "the file")
        validated(_Page, values, "the file")
    except InputError as error:
        raise InputError(
            f"{file} holds no whole figures of a bench command ({str(error).rstrip('.')}); name "
            "another file."
        ) from None
    return dict(values)


class FiguresFile:
    """A figures file that is written after each part and continued, or figures in memory only."""

    def __init__(
        self, file: Path | None, kind: str, settings: Figures, *, overwrite: bool = False
    ) -> None:
        self.file = file
        settings = json.loads(json.dumps(settings))
        self.parts: dict[str, Figures] = {}
        if file is not None:
            self._lock = hold(file)
            if file.exists() and not overwrite:
                kept = read_figures(file)
                _check(file, kept["kind"], kept.get("format"), kept["settings"], kind, settings)
                self.parts = kept["parts"]
        self.page = figures_page(kind, settings, self.parts)

    def part(self, name: str, measure: Callable[[], Figures]) -> Figures:
        """Return a part's figures; they are measured and kept if there are none yet."""
        if name not in self.parts:
            began = time.perf_counter()
            figures = measure() | {"date": now(), "seconds": round(time.perf_counter() - began, 1)}
            self.parts[name] = figures
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                write_figures(self.page, self.file)
        return self.parts[name]

    def measure(
        self, parts: Iterable[tuple[str, Callable[[Tell], Figures]]], report: Report
    ) -> None:
        """Measure missing parts; ``report`` receives the present part and the share done."""
        listed = list(parts)
        for done, (name, make) in enumerate(listed):

            def tell(share: float, done: int = done, name: str = name) -> None:
                report(name, (done + share) / len(listed))

            tell(0.0)
            self.part(name, lambda make=make, tell=tell: make(tell))  # type: ignore[misc]
        report("done", 1.0)


def check_kind(file: Path, kept: str, wanted: str) -> None:
    """Refuse figures of another command."""
    if kept != wanted:
        raise InputError(f"{file} holds figures of 'bench {kept}'; {_ADVICE}.")


def _check(
    file: Path, kept_kind: str, kept_format: Any, kept: Figures, kind: str, wanted: Figures
) -> None:
    """Refuse figures of another command, of a newer version, or made with other settings."""
    check_kind(file, kept_kind, kind)
    if kept_format != FORMAT:
        raise InputError(
            f"{file} is in format {kept_format}, which this version cannot continue; {_ADVICE}."
        )
    differing = []
    for name in {**wanted, **kept}:
        if wanted.get(name) != kept.get(name):
            differing.append(name)
    if differing:
        raise InputError(f"{file} holds figures for another {', '.join(differing)}; {_ADVICE}.")


# -- records ----------------------------------------------------------------------------------


def records_path(file: Path) -> Path:
    """Return the file of a result file's records: NAME.records.jsonl in the same folder."""
    return file.with_suffix(ENDING)


class RecordStore:
    """Finished records in a file of JSON lines, or in memory only.

    The first line says what the records belong to; each further line is one record, which is on
    disk when `add` returns. A last line that was cut off is dropped.
    """

    def __init__(
        self,
        file: Path | None,
        kind: str,
        fields: tuple[str, ...],
        settings: Figures,
        *,
        overwrite: bool = False,
    ) -> None:
        self.file = file
        self.records: dict[Key, Figures] = {}
        self._fields = fields
        self._end = 0  # bytes of whole lines
        if file is None:
            return
        settings = json.loads(json.dumps(settings))
        self._lock = hold(file)
        if file.exists() and not overwrite:
            self._read(file, kind, settings)
        if self._end:
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"{file.parent} cannot be written to ({error.strerror}); choose another folder."
            ) from None
        self._append({"format": FORMAT, "kind": kind, "settings": settings}, "its first line")

    def add(self, key: Key, record: Figures) -> None:
        """Keep a record."""
        line = dict(zip(self._fields, key, strict=True)) | record
        self._append(line, " / ".join(map(str, key)))
        self.records[key] = record

    def _append(self, line: Figures, place: str) -> None:
        if self.file is None:
            return
        data = (json.dumps(line) + "\n").encode()
        try:
            with self.file.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # The next line must not continue half a line.
            with suppress(OSError):
                os.truncate(self.file, self._end)
            raise InputError(
                f"{self.file} could not be written at {place} ({error.strerror or error}). "
                f"{len(self.records)} finished records are kept; make room and run it again."
            ) from None
        self._end += len(data)

    def _read(self, file: Path, kind: str, settings: Figures) -> None:
        content = read_bytes(file, "file of records", most=MOST_JSON)
        *lines, torn = content.split(b"\n")
        if not lines and torn[: len(_BEGIN)] == _BEGIN[: len(torn)]:
            return  # a header that was cut off
        try:
            first = parse_json((lines or [torn])[0], "the first line")
            header = validated(_Header, first, "the first line")
        except InputError as error:
            raise InputError(
                f"{file} holds no records of a measurement ({str(error).rstrip('.')}); {_ADVICE}."
            ) from None
        _check(file, header.kind, header.format, header.settings, kind, settings)
        self._end = len(lines[0]) + 1
        for number, line in enumerate(lines[1:], 2):
            try:
                record = parse_json(line, file)
                key = tuple(record.pop(name) for name in self._fields)
                self.records[key] = record
            except (ValueError, KeyError, TypeError, AttributeError):
                if number == len(lines):
                    break  # it was cut off
                raise InputError(
                    f"{file}, line {number}, holds no record, but records follow it; "
                    f"delete the line to go on without it, {_ADVICE}."
                ) from None
            self._end += len(line) + 1
        if self._end < len(content):
            os.truncate(file, self._end)
