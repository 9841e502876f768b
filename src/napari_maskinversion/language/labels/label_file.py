"""Contents of a label file in any format."""

from __future__ import annotations

from dataclasses import dataclass

from .label import Label


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """Labels of a file, and the settings that a YAML file may add.

    Attributes
    ----------
    labels : tuple of Label
    templates : tuple of str or None
        Prompt templates; None if the file has none.
    threshold : float or None
        Similarity below which a region is "none of these"; None if the file has none.
    description, source : str
        What the list is and where it comes from; may be empty.
    """

    labels: tuple[Label, ...]
    templates: tuple[str, ...] | None = None
    threshold: float | None = None
    description: str = ""
    source: str = ""
