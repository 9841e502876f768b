"""Contents of a label file in any format."""

from __future__ import annotations

from dataclasses import dataclass

from .label import Label


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """Labels of a file, and the settings that a YAML file may add."""

    labels: tuple[Label, ...]
    templates: tuple[str, ...] | None = None  # Prompt templates; None if the file has none
    # Similarity below which a region is "none of these"; None if the file has none
    threshold: float | None = None
    description: str = ""  # What the list is and where it comes from; may be empty
    source: str = ""
