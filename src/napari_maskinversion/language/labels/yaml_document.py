"""YAML files as plain data that know the line of each part.

PyYAML composes nodes only, so nothing in a file is ever built or run. Every scalar becomes a text:
the label ``no`` is not false, ``1.0`` not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

Node: TypeAlias = Any  # PyYAML's own types lack the attributes used here
Path: TypeAlias = tuple[str | int, ...]
# Composing is recursive, and PyYAML's compiled half would overflow the stack.
_MAX_DEPTH: Final = 10
_TOO_DEEP: Final = "this is nested too deeply to be a list of labels."
_TOO_MANY: Final = "its aliases (*name) repeat more values than the file has characters."
_NULLS: Final = ("", "~", "null", "Null", "NULL")


class LineError(Exception):
    """An error, and the line it is on."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def _compose(text: str) -> Node | None:
    """Read YAML nodes, after a look at how deeply they are nested."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise LineError(_line(event), _TOO_DEEP)
        root: Node | None = yaml.compose(text, loader)
    except yaml.MarkedYAMLError as error:
        first, last = error.context_mark, error.problem_mark or error.context_mark
        line = 1 if last is None else last.line + 1
        if "nesting depth" in str(error.problem):  # libyaml's own limit, before any event
            raise LineError(line, _TOO_DEEP) from None
        why = ", ".join(filter(None, (error.context, error.problem)))
        if first is not None and first.line + 1 < line:
            why += f"; it begins on line {first.line + 1}"
        raise LineError(line, f"this is not YAML ({why}).") from None
    except yaml.YAMLError as error:
        place = getattr(error, "position", 0) or 0
        why = str(getattr(error, "reason", "")) or "it cannot be read"
        raise LineError(text.count("\n", 0, place) + 1, f"this is not YAML ({why}).") from None
    return root


class YamlDocument:
    """A YAML file as plain data, and the line of each part by its path."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {(): 1}
        self.key_lines: dict[Path, int] = {}
        self._most = len(text) + 1
        root = _compose(text)
        self.data = None if root is None else self._plain(root, ())

    def _plain(self, node: Node, path: Path) -> Any:
        self.lines[path] = _line(node)
        if len(self.lines) > self._most:
            raise LineError(_line(node), _TOO_MANY)
        if node.id == "scalar":
            return _text(node)
        if len(path) > _MAX_DEPTH:  # an alias may lead back to itself
            raise LineError(_line(node), _TOO_DEEP)
        if node.id == "sequence":
            return [self._plain(item, (*path, number)) for number, item in enumerate(node.value)]
        data: dict[str, Any] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise LineError(_line(key), not_a_text("name"))
            name = _text(key) or ""
            # The later value would silently replace the earlier one.
            if name in data:
                first = self.key_lines[*path, name]
                raise LineError(_line(key), f"{name!r} appears twice (see line {first}).")
            self.key_lines[*path, name] = _line(key)
            data[name] = self._plain(value, (*path, name))
        return data

    def validate(
        self, check: Callable[[Any], Any], data: Any, at: Path, message: Callable[[Any], str]
    ) -> Any:
        """Validate the part at a path with pydantic."""
        try:
            return check(data)
        except ValidationError as error:
            # A misspelt name explains why another one is missing.
            errors = [(*self._place(e, at), e) for e in error.errors(include_url=False)]
            line, _, first = min(errors, key=lambda entry: entry[:2])
            raise LineError(line, message(first)) from None

    def _place(self, error: Any, at: Path) -> tuple[int, bool]:
        path, known = (*at, *error["loc"]), error["type"] != "extra_forbidden"
        lines = self.lines if known else self.key_lines
        while path and path not in lines:
            path = path[:-1]
        return lines.get(path, 1), known


def not_a_text(what: str) -> str:
    """Return a sentence about a value that is not a text."""
    return f"a {what} must be a text; put quotes around one with : or # or [."


def _text(scalar: Node) -> str | None:
    null = scalar.style in (None, "") and scalar.value in _NULLS
    return None if null else str(scalar.value)


def _line(node: Node) -> int:
    return 1 if node.start_mark is None else int(node.start_mark.line) + 1
