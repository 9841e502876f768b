"""Small JSON files in the user's configuration folder: whole or not at all, and never lost."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .atomic_files import write_whole

VARIABLE: Final = "NAPARI_MASKINVERSION_CONFIG"


def config_folder() -> Path:
    """Return the folder for preferences and what the panel remembers.

    The environment variable ``NAPARI_MASKINVERSION_CONFIG`` chooses another one. The folder need
    not exist yet.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("napari-maskinversion", appauthor=False))


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A JSON object with the number of its format.

    Parameters
    ----------
    name : str
        Of the file in `config_folder`.
    format : int
        The newest that is understood.
    """

    name: str
    format: int

    @property
    def path(self) -> Path:
        """Where it is, or would be."""
        return config_folder() / self.name

    def read(self) -> tuple[dict[str, Any], str]:
        """Return what it holds, and in one line why it was ignored.

        A file that is not there holds nothing, and nothing is wrong with that.
        """
        try:
            values = json.loads(self.path.read_text("utf-8"))
            found = values.pop("format")
        except FileNotFoundError:
            return {}, ""
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return {}, f"{self.path} cannot be read and was ignored."
        if not isinstance(found, int) or found > self.format:
            return {}, f"{self.path} was written by a newer version and was ignored."
        return values, ""

    def write(self, values: dict[str, Any]) -> None:
        """Replace what it holds; a file that could not be understood is put aside, not lost.

        Raises
        ------
        OSError
            If it cannot be written; what was there stays.
        """
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": self.format, **values}, indent=1, ensure_ascii=False)
        if self.read()[1]:
            path.replace(path.with_name(f"{path.name}.ignored"))
        write_whole(path, f"{text}\n".encode())

    def remove(self) -> None:
        """Delete it."""
        self.path.unlink(missing_ok=True)
