"""Read YAML that users and other programs wrote, within limits; any problem is one line."""

from __future__ import annotations

from typing import Any, Final

import yaml

from .errors import InputError
from .reading import DEEPEST

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(content: bytes, name: object) -> Any:
    """Read YAML as plain values.

    Parameters
    ----------
    content : bytes
        In UTF-8.
    name : object
        The file, for messages.

    Raises
    ------
    InputError
        If it is broken, has aliases, which could grow without limit, names a key twice, of which
        the later value would silently win, or is nested too deeply; says where.
    """
    try:
        text = content.decode("utf-8-sig")
        depth = 0
        for event in yaml.parse(text, _Loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise InputError(f"{name} is broken YAML: it is nested too deeply.")
            if isinstance(event, yaml.AliasEvent):
                raise InputError(
                    f"{name} has an alias (*{event.anchor}) in line {_line(event)}; write "
                    "its value there."
                )
        _check_keys(yaml.compose(text, _Loader), name)
        return yaml.load(text, _Loader)
    except UnicodeDecodeError:
        raise InputError(f"{name} is not YAML: it is not text in UTF-8.") from None
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{name} is not YAML{line} ({error.problem}).") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or number that is none
        raise InputError(f"{name} is not YAML ({' '.join(str(error).split())}).") from None


def _check_keys(node: Any, name: object) -> None:
    pending = [node] if node is not None else []
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            pending += [key, value]
            if not isinstance(key, yaml.ScalarNode):
                continue
            line, name_of_key = _line(key), (key.tag, key.value)
            if name_of_key in lines:
                raise InputError(
                    f"{name} has {key.value!r} twice, in the lines {lines[name_of_key]} and "
                    f"{line}; keep one."
                )
            lines[name_of_key] = line


def _line(part: Any) -> int:
    return int(part.start_mark.line) + 1
