"""Figures of a bench command in a JSON file, measured part by part and resumed after a stop."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.reading import MOST_JSON, parse_json, read_bytes, validated
from ...base.record_store import RecordStore, check_settings, records_path

FORMAT: Final = 1
Tell = Callable[[float], None]  # receives the share done
Report = Callable[[str, float], None]
Figures = dict[str, Any]


class _Page(BaseModel):
    kind: Annotated[str, Field(min_length=1)]
    settings: Annotated[Figures, Field(min_length=1)]
    parts: Annotated[dict[str, Figures], Field(min_length=1)]


def typed_command() -> str:
    """Return the command as it was typed, with absolute paths cut to their last part."""
    words = [Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:]]
    text = shlex.join(["napari-maskinversion", *words])
    return text.encode("utf-8", "backslashreplace").decode()  # names of files can hold any bytes


def now() -> str:
    """Return the time as figures show it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


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
    with atomic_path(file) as part:
        part.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


class FiguresFile:
    """A figures file, or figures in memory only.

    Finished parts are kept in ``NAME.records.jsonl`` next to the file; a figures file without such
    records is continued from its own parts.
    """

    def __init__(
        self, file: Path | None, kind: str, settings: Figures, *, overwrite: bool = False
    ) -> None:
        self.file = file
        records, earlier = None, dict[str, Any]()
        if file is not None:
            records = records_path(file)
            if file.exists() and not records.exists() and not overwrite:
                earlier = _parts_of(file, kind, settings)
        self._store = RecordStore(records, kind, ("part",), settings, overwrite=overwrite)
        for name, figures in earlier.items():
            self._store.add((name,), figures)
        self.parts = {name: figures for (name,), figures in self._store.records.items()}
        self.page = figures_page(kind, self._store.settings, self.parts)

    def part(self, name: str, measure: Callable[[], Figures]) -> Figures:
        """Return a part's figures; they are measured and kept if there are none yet."""
        if name not in self.parts:
            began = time.perf_counter()
            figures = measure() | {"date": now(), "seconds": round(time.perf_counter() - began, 1)}
            self._store.add((name,), figures)
            self.parts[name] = figures
            if self.file is not None:
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


def _parts_of(file: Path, kind: str, settings: Figures) -> dict[str, Any]:
    page = read_figures(file)
    if page["kind"] != kind or page.get("format") != FORMAT:
        raise InputError(
            f"{file} holds figures of 'bench {page['kind']}', format {page.get('format')}; "
            "name another file, or say --overwrite to measure again."
        )
    check_settings(file, page["settings"], json.loads(json.dumps(settings)))
    parts: dict[str, Any] = page["parts"]
    return parts


@contextmanager
def complete_figures(file: Path | None) -> Generator[None, None, None]:
    """Report figures that lack something as an error of their file; None lets errors pass."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if file is None or isinstance(error, InputError):  # which is a ValueError
            raise
        raise InputError(
            f"{file} holds no whole figures of a bench command ({type(error).__name__}: {error}); "
            "name another file, or measure again."
        ) from None


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
