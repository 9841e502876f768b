"""Filters of file dialogs, made from the tables of formats."""

from __future__ import annotations

from collections.abc import Iterable


def file_filter(name: str, suffixes: Iterable[str]) -> str:
    """Return an entry of a file dialog's filter: "YAML (*.yaml *.yml)"."""
    return f"{name} ({' '.join(f'*{suffix}' for suffix in suffixes)})"
