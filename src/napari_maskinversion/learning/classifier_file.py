"""The file of a classifier: arrays in safetensors, and a record in JSON in its head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveFloat

from ..base.atomic_files import atomic_path
from ..base.errors import InputError
from ..base.reading import parse_json, validated
from ..language.labels.files import item_of, read_label_file
from ..language.labels.learned import FORMAT, VERSION, read_head
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from .evidence import Scores
from .features import check_features

_ARRAYS: Final = ("texts", "learned", "centre", "spread")
_AS_THEY_ARE: Final = ("scale", "temperature", "strength", "counts", "scores")
_TUPLES: Final = ("notes", "features")


class Record(BaseModel):
    """What the head of a file says; later versions read it, too."""

    model_config = ConfigDict(allow_inf_nan=False)

    words: list[Any]  # As items of a label file in YAML
    templates: list[str]
    none: bool  # Whether "none of these" was learned
    scale: PositiveFloat
    temperature: PositiveFloat
    strength: float
    counts: dict[str, int]
    scores: Scores | None
    notes: list[str]
    space: dict[str, Any]
    features: list[str]
    software: str  # Version of the plugin that wrote it
    created: str


def write(file: Path, fields: Mapping[str, Any]) -> None:
    """Write the fields of a classifier, whole or not at all."""
    from safetensors.numpy import save as packed

    vocabulary = fields["vocabulary"]
    words = [item_of(label) for label in vocabulary.full_labels]
    record = Record(
        words=words,
        templates=list(vocabulary.templates),
        none=NONE_OF_THESE in fields["classes"],
        space=parse_json(fields["space"] or "{}", "space"),
        software=version("napari-maskinversion"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: fields[name] for name in (*_AS_THEY_ARE, *_TUPLES)},
    )
    head = {"format": FORMAT, "version": str(VERSION), "record": record.model_dump_json()}
    arrays = {name: np.ascontiguousarray(fields[name]) for name in _ARRAYS}
    file.absolute().parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as part:
        part.write_bytes(packed(arrays, head))


def read(file: Path) -> Mapping[str, Any]:
    """Return the fields of a classifier; refuses a file that is damaged, newer, or something else.

    They are shared: a batch asks for each image.
    """
    read_head(file)  # refuses what cannot be read
    about = file.stat()
    return _read(file, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, *_: int) -> Mapping[str, Any]:
    from safetensors.numpy import load_file

    record = validated(Record, read_head(path), path)
    content = read_label_file(path)
    vocabulary = Vocabulary.of(
        [label for label in content.labels if label.name != NONE_OF_THESE],
        content.templates or (),
    )
    check_features(record.features, path)
    arrays = load_file(path)
    classes = tuple(vocabulary.labels)
    if record.none:
        classes = (*classes, NONE_OF_THESE)
    width = arrays.get("texts", np.zeros(0)).shape[-1:]
    inputs = arrays.get("centre", np.zeros(0)).shape[-1:]
    if record.features:  # those of `fit` may have no names
        inputs = (sum(width) + len(record.features),)
    shapes = {
        "texts": (len(vocabulary.words), *width),
        "learned": (len(classes), sum(inputs) + 1),
        "centre": max(width, inputs),
        "spread": max(width, inputs),
    }
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.shape != shape or not np.isfinite(array).all():
            raise InputError(f"{path} is damaged: {name} does not fit its {len(classes)} classes.")
    values: dict[str, Any] = {
        "vocabulary": vocabulary,
        "classes": classes,
        "space": json.dumps(record.space, sort_keys=True) if record.space else "",
    }
    for name in _AS_THEY_ARE:
        values[name] = getattr(record, name)
    for name in _TUPLES:
        values[name] = tuple(getattr(record, name))
    for name in _ARRAYS:
        values[name] = arrays[name]
    return values
