"""Figures kept in a JSON file part by part, so that a run that was stopped goes on."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...results.export.targets import check_folder

FORMAT: Final = 1


def machine() -> dict[str, Any]:
    """Say what the figures were measured on."""
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def typed_command() -> str:
    """Return the command as it was typed; of absolute paths the last part alone."""
    words = [Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:]]
    return shlex.join(["napari-maskinversion", *words])


class Record:
    """A file of finished parts, or none at all.

    Parameters
    ----------
    file : Path or None
        Where the figures are kept; parts that it holds already are not measured again.
    kind : str
        "scenes", "steps" or "alpha".
    settings : dict
        What the figures depend on.
    overwrite : bool
        Begin again, whatever the file holds.

    Raises
    ------
    InputError
        If the file cannot be written, or holds something that these settings do not continue.
    """

    def __init__(
        self, file: Path | None, kind: str, settings: dict[str, Any], *, overwrite: bool = False
    ) -> None:
        self.file = file
        self.page: dict[str, Any] = {
            "kind": kind,
            "format": FORMAT,
            "settings": json.loads(json.dumps(settings)),
            "command": typed_command(),
            "machine": machine(),
            "parts": {},
        }
        if file is not None:
            check_folder(file.parent, [], overwrite=True)
            if file.exists() and not overwrite:
                self.page["parts"] = self._continued(file)

    @property
    def parts(self) -> dict[str, Any]:
        """Figures of the parts that are finished."""
        found: dict[str, Any] = self.page["parts"]
        return found

    def _continued(self, file: Path) -> dict[str, Any]:
        kept = read_record(file)
        told = "name another file, or say --overwrite to measure anew"
        if kept["kind"] != self.page["kind"]:
            raise InputError(f"{file} holds figures of 'bench {kept['kind']}'; {told}.")
        ours = self.page["settings"]
        other = [k for k in {**ours, **kept["settings"]} if ours.get(k) != kept["settings"].get(k)]
        if other or kept.get("format") != FORMAT:
            raise InputError(
                f"{file} holds figures for another {', '.join(other) or 'format'}; {told}."
            )
        parts: dict[str, Any] = kept["parts"]
        return parts

    def part(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a part's figures: the ones kept, or measured now and kept."""
        if name not in self.parts:
            began = time.perf_counter()
            figures = make()
            self.parts[name] = {
                **figures,
                "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
                "seconds": round(time.perf_counter() - began, 1),
            }
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with atomic_path(self.file) as part:
                    part.write_text(json.dumps(self.page, indent=1) + "\n", encoding="utf-8")
        found: dict[str, Any] = self.parts[name]
        return found


@contextmanager
def whole(file: Path | None) -> Generator[None, None, None]:
    """Tell that figures which are laid out in the block lack something; None lets errors pass.

    Raises
    ------
    InputError
        Naming the file that the figures are from.
    """
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if file is None:
            raise
        raise InputError(
            f"{file} holds no whole figures of a bench command ({type(error).__name__}: {error}); "
            "name another file, or measure again."
        ) from None


def read_record(file: Path) -> dict[str, Any]:
    """Read a file of figures.

    Raises
    ------
    InputError
        If there is none, or it is something else.
    """
    try:
        page = json.loads(file.read_text("utf-8"))
        if page["kind"] and page["settings"].items() and page["parts"].items():
            return dict(page)
    except FileNotFoundError:
        raise InputError(f"There is no file {file}.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(f"{file} holds no figures of a finished part; name another file.")
