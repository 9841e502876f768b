"""What the panel remembers from one start to the next. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ...base.config_file import ConfigFile
from ..results.column_state import ColumnState

FILE: Final = ConfigFile("panel.json", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelState:
    """What is remembered; an empty text or nothing means: as at the first start.

    Attributes
    ----------
    model, device : str
    alpha : float
        Context.
    labels : str
        The text as it was typed.
    marks : dict
        Group and colour of those labels that have any.
    none : bool
        Whether a region may be none of the labels.
    threshold : float or None
        Least similarity of a label.
    prompts, own_prompts : str
        Name of the set, and the text of own ones.
    columns : ColumnState
    sections : dict
        Whether a section is open, by its title.
    """

    model: str = ""
    device: str = ""
    alpha: float = 0.0
    labels: str = ""
    marks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    none: bool = False
    threshold: float | None = None
    prompts: str = ""
    own_prompts: str = ""
    columns: ColumnState = field(default_factory=ColumnState)
    sections: Mapping[str, bool] = field(default_factory=dict)


def read_state() -> tuple[PanelState, str]:
    """Return what is remembered, and in one line why it was ignored."""
    values, problem = FILE.read()
    if problem:
        return PanelState(), problem
    try:
        return _from_values(values), ""
    except (KeyError, TypeError, ValueError, AttributeError):
        return PanelState(), f"{FILE.path} cannot be read and was ignored."


def write_state(state: PanelState) -> None:
    """Remember a state; OSError where that is impossible."""
    FILE.write(asdict(state))


def _from_values(values: Mapping[str, Any]) -> PanelState:
    columns = values.get("columns", {})
    return PanelState(
        **{
            name: _text(values.get(name, ""))
            for name in ("model", "device", "labels", "prompts", "own_prompts")
        },
        alpha=float(values.get("alpha", 0.0)),
        marks={_text(k): (_text(g), _text(c)) for k, (g, c) in values.get("marks", {}).items()},
        none=bool(values.get("none", False)),
        threshold=_number(values.get("threshold")),
        columns=ColumnState(
            order=tuple(_text(name) for name in columns.get("order", ())),
            hidden=tuple(_text(name) for name in columns.get("hidden", ())),
            widths={_text(k): int(v) for k, v in columns.get("widths", {}).items()},
        ),
        sections={_text(k): bool(v) for k, v in values.get("sections", {}).items()},
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
