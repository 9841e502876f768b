"""Errors of pydantic models, in our own words."""

from __future__ import annotations

from pydantic import ValidationError

from .errors import ConfigError


def config_error(error: ValidationError) -> ConfigError:
    """Return the first problem of a pydantic model as one line: field, rule, value."""
    problem = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in problem["loc"])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    rule = str(cause) if cause is not None else problem["msg"]
    rule = rule.replace("Input should be", "must be").rstrip(".")
    between = " " if rule.startswith("must") else ": "
    return ConfigError(f"{name}{between}{rule}; got {problem['input']!r}.")
