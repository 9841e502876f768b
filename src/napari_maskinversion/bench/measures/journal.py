"""One line a record, written as soon as it is there, so that a measurement that stops goes on."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...results.export.targets import check_folder

FORMAT: Final = 1
Key = tuple[str, str, str]  # model, entry, image


class Journal:
    """A file of finished records, or none at all.

    Parameters
    ----------
    file : Path or None
        Lines of JSON: first what is measured, then one per model, entry and image.
    settings : dict
        What every record depends on.
    overwrite : bool
        Begin again, whatever the file holds.

    Attributes
    ----------
    parts : dict
        Records by (model, entry, image).
    skipped : dict
        Why images were left out, by their name.

    Raises
    ------
    InputError
        If the file cannot be written, its records depend on something else, or a line before the
        last one is damaged.
    """

    def __init__(
        self, file: Path | None, settings: dict[str, Any], *, overwrite: bool = False
    ) -> None:
        self.file = file
        self.parts: dict[Key, dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}
        self._settings = json.loads(json.dumps(settings))
        self._end = 0
        if file is None:
            return
        check_folder(file.parent, [], overwrite=True)
        if file.exists() and not overwrite:
            self._read(file)
        if not self._end:
            file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                file.unlink()
            self._write({"format": FORMAT, "settings": self._settings}, "its first line")

    def add(self, key: Key, record: dict[str, Any]) -> None:
        """Keep a record.

        Raises
        ------
        InputError
            If it cannot be written; names file and record. The records before are whole.
        """
        model, entry, image = key
        self._write({"model": model, "entry": entry, "image": image, **record}, " / ".join(key))
        self.parts[key] = record

    def skip(self, image: str, why: str) -> None:
        """Note an image that cannot be used; it is tried again when the measurement goes on."""
        self.skipped[image] = why

    def _write(self, line: dict[str, Any], what: str) -> None:
        if self.file is None:
            return
        text = json.dumps(line) + "\n"
        try:
            with self.file.open("ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # Half a line would be in the way of the next one.
            with suppress(OSError):
                os.truncate(self.file, self._end)
            raise InputError(
                f"{self.file} could not be written at {what} ({error.strerror or error}). "
                f"{len(self.parts)} finished records are kept; make room and run it again."
            ) from None
        self._end += len(text.encode())

    def _read(self, file: Path) -> None:
        told = "name another file, or say --overwrite to measure anew"
        try:
            content = file.read_bytes()
            # A line that the power was cut in has no end.
            lines = [line + b"\n" for line in content.split(b"\n")[:-1]]
            first = json.loads(lines[0]) if lines else None
            settings = None if first is None else dict(first["settings"])
            if first is not None and first["format"] != FORMAT:
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{file} holds no records of a measurement; {told}.") from None
        if settings is None:
            return
        ours = self._settings
        other = [k for k in {**ours, **settings} if ours.get(k) != settings.get(k)]
        if other:
            raise InputError(f"{file} holds records for another {', '.join(other)}; {told}.")
        self._end = len(lines[0])
        for number, line in enumerate(lines[1:], 2):
            try:
                record = json.loads(line)
                key = (record.pop("model"), record.pop("entry"), record.pop("image"))
                self.parts[key] = record
            except (ValueError, KeyError, TypeError, AttributeError):
                if number == len(lines):
                    break  # the last one may be torn: it is measured again
                raise InputError(
                    f"{file}, line {number}, holds no record, but there are records after it; "
                    f"take the line out to go on without it, {told}."
                ) from None
            self._end += len(line)
        if self._end < len(content):
            os.truncate(file, self._end)
