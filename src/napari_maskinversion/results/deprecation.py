"""Warnings about names that a later release removes."""

from __future__ import annotations

import warnings


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of a deprecated property or function that it has a new name."""
    warnings.warn(
        f"{old} is deprecated and goes in the next release; use {new}.",
        DeprecationWarning,
        stacklevel=3,
    )
