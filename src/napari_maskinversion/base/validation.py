"""Errors of pydantic models as `ConfigError`."""

from __future__ import annotations

from pydantic import ValidationError

from .errors import ConfigError


def config_error(error: ValidationError, field: str = "") -> ConfigError:
    """Return the first problem of a pydantic model as one line: field, rule, value.

    ``field`` names the value where a single one was validated.
    """
    problem = error.errors(include_url=False)[0]
    name = field or ".".join(str(part) for part in problem["loc"])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    rule = str(cause) if cause is not None else problem["msg"]
    says = f"{name} must{rule[12:]}" if rule.startswith("Input should ") else f"{name}: {rule}"
    return ConfigError(f"{says.rstrip('.')}; got {problem['input']!r}.")
