"""Validation with pydantic: field types and error messages."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from .errors import ConfigError


def _nan_from_null(value: Any) -> Any:
    return math.nan if value is None else value


def _null_from_nan(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


FiniteOrNull = Annotated[float, BeforeValidator(_nan_from_null), PlainSerializer(_null_from_nan)]
"""A number; NaN and infinity are null in JSON."""


class FrozenModel(BaseModel):
    """An immutable pydantic model whose invalid values raise `ConfigError`."""

    model_config = ConfigDict(frozen=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise config_error(error) from None


def config_error(error: ValidationError, field: str = "") -> ConfigError:
    """Return the first problem of a pydantic model as one line: field, rule, value.

    ``field`` is its name if a single value was validated.
    """
    problem = error.errors(include_url=False)[0]
    name = field or ".".join(str(part) for part in problem["loc"])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    rule = str(cause) if cause is not None else problem["msg"]
    says = f"{name} must{rule[12:]}" if rule.startswith("Input should ") else f"{name}: {rule}"
    return ConfigError(f"{says.rstrip('.')}; got {problem['input']!r}.")
