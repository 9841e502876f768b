"""Labels as YAML, the one form that keeps everything: prompts and threshold too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...base.errors import InputError
from .label import Label, clashes, one_line, split_words
from .templates import check_templates, choose_templates

Node: TypeAlias = Any  # a node of PyYAML, whose types leave out what it is
_DOCUMENT: Final = ("labels", "templates", "threshold", "description", "source")
_ENTRY: Final = {
    "label": "label",
    "name": "label",
    "synonyms": "synonyms",
    "group": "group",
    "colour": "colour",
    "color": "colour",
}
# Composing is recursive, and PyYAML's compiled half would overflow the stack.
_DEEPEST: Final = 10
_NO_LABELS: Final = "There are no labels; give at least one, for example: - dog"
_NULLS: Final = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a file of labels says.

    Attributes
    ----------
    labels : tuple of Label
    templates : tuple of str or None
        None where the file names none; so for the threshold.
    threshold : float or None
    description, source : str
        What the list is and where it comes from, or empty.
    """

    labels: tuple[Label, ...]
    templates: tuple[str, ...] | None = None
    threshold: float | None = None
    description: str = ""
    source: str = ""


def parse_yaml(text: str, file: str) -> Words:
    """Read labels from YAML.

    A list of labels, a mapping of labels to synonyms, or a mapping with ``labels`` (one of these)
    and ``templates``, ``threshold``, ``description``, ``source``. An item of a list is a text
    (``car | automobile``) or a mapping with label, synonyms, group and colour. Every value is the
    text that stands there: the label ``no`` is no falsehood, ``1.0`` no number.

    Parameters
    ----------
    text : str
    file : str
        Where it comes from, for messages.

    Raises
    ------
    InputError
        If it is no YAML, or says something else; names file and line.
    """
    try:
        return _document(_compose(text))
    except _Wrong as wrong:
        raise InputError(f"{file}, line {wrong.line}: {wrong}") from None


def to_yaml(words: Words) -> str:
    """Write YAML that `parse_yaml` reads."""
    import yaml

    record: dict[str, Any] = {}
    if words.templates is not None:
        record["templates"] = list(words.templates)
    if words.threshold is not None:
        record["threshold"] = words.threshold
    record["labels"] = [_item(label) for label in words.labels]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    written: str = yaml.dump(record, Dumper=dumper, allow_unicode=True, sort_keys=False, width=1000)
    return written


def _item(label: Label) -> Any:
    if label == Label(label.name) and "|" not in label.name:
        return label.name
    item: dict[str, Any] = {"label": label.name}
    if label.synonyms:
        item["synonyms"] = list(label.synonyms)
    if label.group:
        item["group"] = label.group
    if label.color:
        item["colour"] = label.color
    return item


class _Wrong(Exception):
    """Something that cannot be used, and its line."""

    def __init__(self, node: Node | int, message: str) -> None:
        super().__init__(message)
        self.line = node if isinstance(node, int) else node.start_mark.line + 1


def _compose(text: str) -> Node:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                line = 1 if event.start_mark is None else event.start_mark.line + 1
                raise _Wrong(line, "this is nested too deeply to be a list of labels.")
        # Nodes, not objects: they know their lines, and nothing in a file is ever built or run.
        root: Node | None = yaml.compose(text, loader)
    except yaml.MarkedYAMLError as error:
        first, last = error.context_mark, error.problem_mark or error.context_mark
        line = 1 if last is None else last.line + 1
        why = ", ".join(filter(None, (error.context, error.problem)))
        if first is not None and first.line + 1 < line:
            why += f"; it begins on line {first.line + 1}"
        raise _Wrong(line, f"this is no YAML ({why}).") from None
    except yaml.YAMLError as error:
        place = getattr(error, "position", 0) or 0
        why = str(getattr(error, "reason", "")) or "it cannot be read"
        raise _Wrong(text.count("\n", 0, place) + 1, f"this is no YAML ({why}).") from None
    if root is None:
        raise _Wrong(1, _NO_LABELS)
    return root


def _document(root: Node) -> Words:
    keys = dict(_pairs(root)) if root.id == "mapping" else {}
    names = {key.value: value for key, value in keys.items()}
    if "labels" not in names:
        return Words(labels=_labels(root))
    for key in keys:
        if key.value not in _DOCUMENT:
            raise _Wrong(key, f"{key.value!r} is not known; use {', '.join(_DOCUMENT)}.")
    threshold = None
    if "threshold" in names and not _is_null(names["threshold"]):
        node = names["threshold"]
        try:
            threshold = float(_text(node, "the threshold"))
        except ValueError:
            raise _Wrong(node, f"the threshold {node.value!r} is no number.") from None
    return Words(
        labels=_labels(names["labels"]),
        templates=_templates(names["templates"]) if "templates" in names else None,
        threshold=threshold,
        **{
            name: one_line(_text(names[name], name))
            for name in ("description", "source")
            if name in names
        },
    )


def _templates(node: Node) -> tuple[str, ...]:
    try:
        if node.id == "scalar":
            return choose_templates([_text(node, "templates")])
        if node.id == "sequence":
            return check_templates([_text(item, "a template") for item in node.value])
    except InputError as error:
        raise _Wrong(node, str(error)) from None
    raise _Wrong(node, "templates must be a list of sentences, or the name of a set.")


def _labels(node: Node) -> tuple[Label, ...]:
    if node.id == "sequence":
        made = [(item, _listed(item)) for item in node.value]
    elif node.id == "mapping":
        made = [(key, _keyed(key, value)) for key, value in _pairs(node)]
    else:
        raise _Wrong(node, "here should be a list of labels, each after a dash: - dog")
    labels = tuple(label for _, label in made)
    for later, earlier, says in clashes(labels):
        first = made[earlier][0].start_mark.line + 1
        raise _Wrong(made[later][0], f"{says} (see line {first}).")
    if not labels:
        raise _Wrong(node, _NO_LABELS)
    return labels


def _listed(item: Node) -> Label:
    """Read an item of a list."""
    if item.id == "mapping":
        fields = {}
        for key, value in _pairs(item):
            if key.value not in _ENTRY:
                known = "label, synonyms, group, colour"
                raise _Wrong(key, f"{key.value!r} is not known; a label has {known}.")
            if _ENTRY[key.value] in fields:
                raise _Wrong(key, f"{key.value!r} is given twice.")
            fields[_ENTRY[key.value]] = value
        if "label" not in fields:
            raise _Wrong(item, "this label has no 'label: ...'.")
        return _label(item, _text(fields["label"], "a label"), fields)
    words = split_words(_text(item, "a label"))
    if not words:
        raise _Wrong(item, "a label is blank.")
    return _label(item, words[0], {}, words[1:])


def _keyed(key: Node, value: Node) -> Label:
    """Read a label that is a key of a mapping, with its synonyms or its fields."""
    name = _text(key, "a label")
    if value.id != "mapping":
        return _label(key, name, {"synonyms": value})
    fields = {}
    for field, given in _pairs(value):
        if _ENTRY.get(field.value, "label") == "label":
            known = "synonyms, group, colour"
            raise _Wrong(field, f"{field.value!r} is not known; a label has {known}.")
        fields[_ENTRY[field.value]] = given
    return _label(key, name, fields)


def _label(node: Node, name: str, fields: dict[str, Node], words: list[str] | None = None) -> Label:
    try:
        return Label(
            name=one_line(name),
            synonyms=tuple(words or _synonyms(fields.get("synonyms"))),
            group=one_line(_text(fields.get("group"), "a group")),
            color=_text(fields.get("colour"), "a colour"),
        )
    except InputError as error:
        raise _Wrong(node, str(error)) from None


def _synonyms(node: Node | None) -> list[str]:
    if node is None or _is_null(node):
        return []
    if node.id == "sequence":
        return [one_line(_text(item, "a synonym")) for item in node.value]
    return split_words(_text(node, "synonyms"))


def _pairs(node: Node) -> Iterator[tuple[Node, Node]]:
    """Keys and values; a key that stands twice would silently lose what the first one said."""
    seen: dict[str, int] = {}
    for key, value in node.value:
        text = _text(key, "a name")
        if text in seen:
            raise _Wrong(key, f"{text!r} appears twice (see line {seen[text]}).")
        seen[text] = key.start_mark.line + 1
        yield key, value


def _text(node: Node | None, what: str) -> str:
    if node is None or _is_null(node):
        return ""
    if node.id != "scalar":
        raise _Wrong(node, f"{what} must be a text; put quotes around one that holds : or # or [.")
    return str(node.value)


def _is_null(node: Node) -> bool:
    return node.id == "scalar" and node.style in (None, "") and node.value in _NULLS
