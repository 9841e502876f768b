"""Validation with pydantic: field types and error messages."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self
from unicodedata import normalize

import numpy as np
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from .errors import ConfigError


class UnknownSettingError(ConfigError):
    """A setting that there is not."""


def _nan_from_null(value: Any) -> Any:
    if value is None:
        return math.nan
    return value


def _null_from_nan(value: float) -> float | None:
    if math.isfinite(value):
        return float(value)
    return None


FiniteOrNull = Annotated[
    float, AllowInfNan(True), BeforeValidator(_nan_from_null), PlainSerializer(_null_from_nan)
]
"""A number; NaN and infinity are null in JSON."""


CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
"""Signs that a terminal acts on, and halves of letters; not those that end lines."""


def _plain(text: str) -> str:
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


PlainText = Annotated[str, AfterValidator(_plain)]
"""A text without `CONTROL`."""


# Two words that differ in signs without a width look the same. Joiners between letters other than
# ASCII shape Persian, scripts of India, and emoji.
_WITHOUT_WIDTH: Final = re.compile(
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
    "|(?<![^ -~])[\u200c\u200d]|[\u200c\u200d](?![^ -~])"
)


def composed(text: str) -> str:
    """Return a text in Unicode's form NFC: letters with accents that look the same are the same."""
    if text.isascii():
        return text
    return normalize("NFC", text)


def without_hidden(text: str) -> str:
    """Return a text without signs that have no width and shape no letter."""
    if text.isascii():
        return text
    return _WITHOUT_WIDTH.sub("", text)


def encodable(value: Any) -> Any:
    r"""Return a text with "\ufffd" for lone surrogates, which UTF-8 cannot encode; others as is.

    File names in another encoding have them.
    """
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class FrozenModel(BaseModel):
    """An immutable pydantic model whose invalid values raise `ConfigError`."""

    model_config = ConfigDict(frozen=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise config_error(error, tuple(type(self).model_fields)) from None


_RULES: Final = ("ge", "gt", "le", "lt", "multiple_of", "allow_inf_nan")


def setting(default: Any, title: str, description: str | None = None, **more: Any) -> Any:
    """Return a field with what forms and the command line show; a class as default is called.

    ``more`` holds its range (ge, gt, le, lt) and extras: group, unit, ui_max, cli...
    """
    rules: dict[str, Any] = {}
    for name in _RULES:
        if name in more:
            rules[name] = more.pop(name)
    rules["default_factory" if isinstance(default, type) else "default"] = default
    return Field(title=title, description=description, json_schema_extra=more, **rules)


class Config(FrozenModel):
    """Settings of one thing: no other names and no other types, but NumPy's numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _from_numpy(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in values.items()}

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, all checked; `model_copy` would check none."""
        return type(self)(**{**dict(self), **values})


def config_error(error: ValidationError, names: Sequence[str] = ()) -> ConfigError:
    """Return the first problem of a pydantic model as one line: field, rule, value."""
    problem = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        use = ""
        if names:
            use = f"; use {', '.join(names)}"
        return UnknownSettingError(f"There is no setting {name!r}{use}.")
    if problem["type"] == "missing":
        return ConfigError(f"{name} is missing.")
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    if cause is not None and not name:  # of several values, which would fill pages
        return ConfigError(f"{str(cause).rstrip('.')}.")
    rule = str(cause) if cause is not None else problem["msg"]
    rule = re.sub(r"a valid dictionary( or instance of \w+)?$", "an object", rule)
    name = name or "its content"
    if rule.startswith("Input should "):
        says = f"{name} must{rule[12:]}"
    else:
        says = f"{name}: {rule}"
    return ConfigError(f"{says.rstrip('.')}; got {reprlib.repr(problem['input'])}.")
