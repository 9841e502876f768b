"""What a format of the export catalogue is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...base.extras import check_extra
from ..results import Results
from .bundle import Bundle


def _always(results: Results) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """One export format.

    Attributes
    ----------
    name : str
        Name on the command line.
    title : str
        Name in the menu.
    file : str
        Default name of its (first) file.
    write : callable
        Writes a `Bundle` to the path of that file, whole or not at all.
    more_files : callable
        Returns the paths of the other files it writes, given the first one's.
    applies : callable
        Whether results have what it writes.
    needs : tuple of str
        Modules of the extra ``spatial`` that it imports.
    """

    name: str
    title: str
    file: str
    write: Callable[[Bundle, Path], None]
    more_files: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    applies: Callable[[Results], bool] = _always
    needs: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse a format whose packages are not installed.

        Raises
        ------
        ConfigError
            Names them, and the command that installs them.
        """
        check_extra(f"The format {self.name}", "spatial", self.needs)

    @property
    def suffix(self) -> str:
        """The suffix of its (first) file."""
        return Path(self.file).suffix

    def files(self, path: Path) -> list[Path]:
        """Return all files that writing to a path makes."""
        return [path, *self.more_files(path)]
