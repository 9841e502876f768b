"""Results kept record by record in JSON lines, so that stopped work can resume."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, StrictInt

from .errors import InputError
from .locks import hold
from .reading import MOST_JSON, parse_json, read_bytes, validated

FORMAT: Final = 1
ENDING: Final = ".records.jsonl"
_BEGIN: Final = b'{"format": '
_ADVICE: Final = "name another file, or say --overwrite to measure again"
Key = tuple[Any, ...]


class _Header(BaseModel):
    format: StrictInt
    kind: str
    settings: dict[str, Any]


def records_path(file: Path) -> Path:
    """Return the file of a result file's records: NAME.records.jsonl in the same folder."""
    return file.with_suffix(ENDING)


class RecordStore:
    """Finished records in a file, or in memory only.

    The first line of the file is a header that says what the records belong to; each further
    line is one record. A line is on disk when `add` returns. A last line that was cut off is
    dropped.
    """

    def __init__(
        self,
        file: Path | None,
        kind: str,
        fields: tuple[str, ...],
        settings: dict[str, Any],
        *,
        overwrite: bool = False,
    ) -> None:
        self.file = file
        self.kind = kind
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self.records: dict[Key, dict[str, Any]] = {}
        self._fields = fields
        self._end = 0  # bytes of whole lines
        if file is None:
            return
        self._lock = hold(file)
        if file.exists() and not overwrite:
            self._read(file)
        if not self._end:
            self._begin(file)

    def add(self, key: Key, record: dict[str, Any]) -> None:
        """Keep a record."""
        line = dict(zip(self._fields, key, strict=True)) | record
        self._append(line, " / ".join(map(str, key)))
        self.records[key] = record

    def _begin(self, file: Path) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"{file.parent} cannot be written to ({error.strerror}); choose another folder."
            ) from None
        header = _Header(format=FORMAT, kind=self.kind, settings=self.settings)
        self._append(header.model_dump(), "its first line")

    def _append(self, line: dict[str, Any], what: str) -> None:
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
                f"{self.file} could not be written at {what} ({error.strerror or error}). "
                f"{len(self.records)} finished records are kept; make room and run it again."
            ) from None
        self._end += len(data)

    def _read(self, file: Path) -> None:
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
        if header.format != FORMAT:
            raise InputError(
                f"{file} holds records in format {header.format}, which this version cannot "
                f"continue; {_ADVICE}."
            )
        if header.kind != self.kind:
            raise InputError(f"{file} holds figures of 'bench {header.kind}'; {_ADVICE}.")
        check_settings(file, header.settings, self.settings)
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


def check_settings(file: Path, kept: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse kept records that were made with other settings."""
    differing = [name for name in {**wanted, **kept} if wanted.get(name) != kept.get(name)]
    if differing:
        raise InputError(f"{file} holds figures for another {', '.join(differing)}; {_ADVICE}.")
