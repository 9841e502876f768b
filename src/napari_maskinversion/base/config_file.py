"""Small JSON files in the user's configuration folder, replaced as a whole and never lost."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .atomic_files import write_whole
from .reading import read_json

VARIABLE: Final = "NAPARI_MASKINVERSION_CONFIG"


def config_folder() -> Path:
    """Return the folder for preferences and for the panel's last state.

    The environment variable ``NAPARI_MASKINVERSION_CONFIG`` overrides the system's folder. The
    folder need not exist yet.
    """
    override = os.environ.get(VARIABLE)
    if override:
        return Path(override).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("napari-maskinversion", appauthor=False))


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A JSON object with a format version."""

    name: str  # File name in `config_folder`
    format: int  # Newest version that this code can read

    @property
    def path(self) -> Path:
        """Full path, whether the file exists or not."""
        return config_folder() / self.name

    def read(self) -> tuple[dict[str, Any], str]:
        """Return the file's values, and one line that says why it was ignored.

        A missing file has no values, and no problem.
        """
        try:
            values = read_json(self.path)
            version = values.pop("format")
        except (ValueError, KeyError, AttributeError, TypeError):
            if not self.path.exists():
                return {}, ""
            return {}, self.unreadable
        if not isinstance(version, int) or version > self.format:
            return {}, f"{self.path} was written by a newer version and was ignored."
        return values, ""

    @property
    def unreadable(self) -> str:
        """One line for a file with content that makes no sense."""
        return f"{self.path} cannot be read and was ignored."

    def write(self, values: dict[str, Any]) -> None:
        """Replace the file's values; a file that cannot be read is renamed, not overwritten."""
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": self.format, **values}, indent=1, ensure_ascii=False)
        if self.read()[1]:
            path.replace(path.with_name(f"{path.name}.ignored"))
        write_whole(path, f"{text}\n".encode())

    def remove(self) -> None:
        """Delete the file, if it exists."""
        self.path.unlink(missing_ok=True)
