"""What a format of the export catalogue is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...base.errors import ConfigError
from ..results import Results
from .bundle import Bundle


def _always(results: Results) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """One export format."""

    name: str  # Name on the command line
    title: str  # Name in the menu
    file: str  # Default name of its (first) file
    # Writes a `Bundle` to the path of that file, whole or not at all
    write: Callable[[Bundle, Path], None]
    # Returns the paths of the other files it writes, given the first one's
    more_files: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    applies: Callable[[Results], bool] = _always  # Whether results have what it writes
    needs: tuple[str, ...] = ()  # Modules of the extra ``spatial`` that it imports

    def check(self) -> None:
        """Refuse a format whose packages are not installed."""
        missing = [module for module in self.needs if find_spec(module) is None]
        if missing:
            raise ConfigError(
                f"The format {self.name} needs {', '.join(missing)}; install the extra: "
                'pip install "napari-maskinversion[spatial]"'
            )

    @property
    def suffix(self) -> str:
        """The suffix of its (first) file."""
        return Path(self.file).suffix

    def files(self, path: Path) -> list[Path]:
        """Return all files that writing to a path makes."""
        return [path, *self.more_files(path)]
