"""Labels as YAML, the one format that keeps everything, prompts and threshold included.

The models below are the format; `YamlDocument` reads the file and knows its lines.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
)

from ...base.errors import InputError
from .label import Label, clashes, one_line, split_words
from .label_file import LabelFile
from .templates import check_templates, choose_templates
from .yaml_document import LineError, Path, YamlDocument, not_a_text

_NO_LABELS: Final = "There are no labels; give at least one, for example: - dog"
_ALIASES: Final = ("name", "label", "color", "colour")


def _text_or_empty(value: Any) -> Any:
    return "" if value is None else value


def _synonym_list(value: Any) -> Any:
    return split_words(value or "") if value is None or isinstance(value, str) else value


def _template_list(value: Any) -> Any:
    if isinstance(value, str):
        return choose_templates([value])
    if isinstance(value, list):
        return value
    raise ValueError("templates must be a list of sentences, or the name of a set.")


def _item_fields(item: Any) -> Any:
    """Return the fields of a list item; ``car | automobile`` is a name with a synonym."""
    if item is not None and not isinstance(item, str):
        return item
    words = split_words(item or "")
    if not words:
        raise ValueError("a label is blank.")
    return {"label": words[0], "synonyms": words[1:]}


def _value_fields(value: Any) -> Any:
    return value if isinstance(value, dict) else {"synonyms": value}


Text = Annotated[str, BeforeValidator(_text_or_empty)]
Line = Annotated[Text, AfterValidator(one_line)]
Templates = Annotated[
    tuple[Text, ...], BeforeValidator(_template_list), AfterValidator(check_templates)
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Fields(_Strict):
    """A label in a mapping: its fields, or its synonyms alone."""

    synonyms: Annotated[tuple[Line, ...], BeforeValidator(_synonym_list)] = ()
    group: Line = ""
    colour: Text = Field("", validation_alias=AliasChoices("colour", "color"))

    def label_named(self, name: str) -> Label:
        return Label(one_line(name), self.synonyms, self.group, self.colour)


class _Item(_Fields):
    """A label in a list."""

    label: Text = Field(validation_alias=AliasChoices("label", "name"))


class _Settings(_Strict):
    """Everything in a file but its labels."""

    templates: Templates | None = None
    threshold: float | None = None
    description: Line = ""
    source: Line = ""


_LIST: Final = TypeAdapter(list[Annotated[_Item, BeforeValidator(_item_fields)]])
_MAPPING: Final = TypeAdapter(dict[str, Annotated[_Fields, BeforeValidator(_value_fields)]])


def parse_yaml(text: str, file: str) -> LabelFile:
    """Read labels from YAML.

    The file is a list of labels, a mapping from labels to synonyms, or a mapping with ``labels``
    (one of these two), ``templates``, ``threshold``, ``description`` and ``source``. A list item
    is a text (``car | automobile``) or a mapping with label, synonyms, group and colour.
    """
    try:
        return _label_file(YamlDocument(text))
    except LineError as error:
        raise InputError(f"{file}, line {error.line}: {error}") from None


def to_yaml(content: LabelFile) -> str:
    """Write YAML that `parse_yaml` reads."""
    import yaml

    about = {"description": content.description, "source": content.source}
    record: dict[str, Any] = {name: text for name, text in about.items() if text}
    if content.templates is not None:
        record["templates"] = list(content.templates)
    if content.threshold is not None:
        record["threshold"] = content.threshold
    record["labels"] = [_item(label) for label in content.labels]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    written: str = yaml.dump(record, Dumper=dumper, allow_unicode=True, sort_keys=False, width=1000)
    return written


def _item(label: Label) -> Any:
    if label == Label(label.name) and "|" not in label.name:
        return label.name
    fields = {
        "label": label.name,
        "synonyms": list(label.synonyms),
        "group": label.group,
        "colour": label.color,
    }
    return {name: value for name, value in fields.items() if value}


def _label_file(document: YamlDocument) -> LabelFile:
    at: Path = ()
    data = document.data
    settings = _Settings()
    if isinstance(data, dict) and "labels" in data:
        rest = {name: value for name, value in data.items() if name != "labels"}
        settings = document.validate(_Settings.model_validate, rest, (), _message)
        data, at = data["labels"], ("labels",)
    return LabelFile(labels=_labels(document, data, at), **settings.model_dump())


def _labels(document: YamlDocument, data: Any, at: Path) -> tuple[Label, ...]:
    if isinstance(data, list):
        lines = [document.lines[*at, number] for number in range(len(data))]
        items = document.validate(_LIST.validate_python, data, at, _message)
        named = [(item.label, item) for item in items]
    elif isinstance(data, dict):
        lines = [document.key_lines[*at, name] for name in data]
        named = list(document.validate(_MAPPING.validate_python, data, at, _message).items())
    elif data is None and at == ():
        raise LineError(1, _NO_LABELS)
    else:
        raise LineError(
            document.lines[at], "here should be a list of labels, each after a dash: - dog"
        )
    labels = []
    for line, (name, fields) in zip(lines, named, strict=True):
        try:
            labels.append(fields.label_named(name))
        except InputError as error:
            raise LineError(line, str(error)) from None
    for later, earlier, problem in clashes(labels):
        raise LineError(lines[later], f"{problem} (see line {lines[earlier]}).")
    if not labels:
        raise LineError(document.lines[at], _NO_LABELS)
    return tuple(labels)


def _message(error: Any) -> str:
    """Return a sentence about one of pydantic's errors."""
    kind, path = error["type"], error["loc"]
    name = str(path[-1]) if path else "this"
    if kind == "extra_forbidden":
        if len(path) == 1:
            return f"{name!r} is not known; use labels, {', '.join(_Settings.model_fields)}."
        if name in _ALIASES and isinstance(path[0], int):
            return f"{name!r} appears twice."
        listed = "label, " if isinstance(path[0], int) else ""
        return f"{name!r} is not known; a label has {listed}synonyms, group, colour."
    if kind == "missing":
        return "this label has no 'label: ...'."
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if name == "threshold":
        return f"the threshold {error['input']!r} is not a number."
    singular = {"synonyms": "synonym", "templates": "template"}
    named = next((str(part) for part in reversed(path) if isinstance(part, str)), "label")
    return not_a_text(singular.get(named, named))
