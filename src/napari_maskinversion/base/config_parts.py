"""The parts of the file of preferences, and how one of them changes while the others stay."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .atomic_files import write_whole
from .errors import InUseError
from .locks import hold_alone
from .preferences import FILE, PARTS, Preferences, config_folder, forget_loaded


@dataclass(frozen=True, slots=True)
class ConfigPart:
    """An object within the file of preferences.

    Before 0.2 each part had a file of its own: it is read as long as nobody has written the part,
    and deleted then.
    """

    names: tuple[str, ...]  # That lead to it in the file; () for the preferences themselves
    former: str = ""  # Name of its own file in the same folder

    @property
    def former_file(self) -> Path:
        """The file that it had of its own."""
        return config_folder() / self.former

    def read(self) -> tuple[dict[str, Any], str]:
        """Return its values, and one line that says why they were ignored; {} if there are none."""
        values, problem = FILE.read()
        if problem:
            return {}, problem
        part: Any = values
        for name in self.names:
            if name not in part:
                return self._read_former()
            part = part[name]
            if not isinstance(part, dict):
                return {}, FILE.unreadable
        return (part if self.names else without_parts(part)), ""

    def _read_former(self) -> tuple[dict[str, Any], str]:
        if not self.former:
            return {}, ""
        return FILE.read(self.former_file)

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace its values; a file that cannot be read is renamed, not overwritten."""
        self._change(dict(values))

    def remove(self) -> None:
        """Delete it, if it exists."""
        self._change(None)

    def _change(self, values: dict[str, Any] | None) -> None:
        path = FILE.path
        with _alone(path):
            content, problem = FILE.read()
            if problem:
                path.replace(path.with_name(f"{path.name}.ignored"))
            changed = self._changed(content, values)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"format": FILE.format, **changed}, indent=1, ensure_ascii=False)
            write_whole(path, f"{text}\n".encode())
        if self.former:
            self.former_file.unlink(missing_ok=True)

    def _changed(self, content: dict[str, Any], values: dict[str, Any] | None) -> dict[str, Any]:
        """Return the content of the file with other values of this part; None: without it."""
        if not self.names:
            kept = {}
            for name in PARTS:
                if name in content:
                    kept[name] = content[name]
            return {**(values or {}), **kept}
        *outer, last = self.names
        part = content
        for name in outer:
            if not isinstance(part.get(name), dict):
                part[name] = {}
            part = part[name]
        part.pop(last, None)
        if values is not None:
            part[last] = values
        return content


PREFERENCES: Final = ConfigPart(())


def save(preferences: Preferences) -> None:
    """Write the preferences."""
    PREFERENCES.write(preferences.model_dump())
    forget_loaded()


def without_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file holds besides its named parts."""
    return {name: value for name, value in values.items() if name not in PARTS}


@contextmanager
def _alone(path: Path) -> Generator[None, None, None]:
    """Hold a file while it is changed; after a long wait do without."""
    with ExitStack() as held:
        with suppress(InUseError):
            held.enter_context(hold_alone(path))
        yield
