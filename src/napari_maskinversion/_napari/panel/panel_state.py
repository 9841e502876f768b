"""What the panel restores at its next start. No Qt here."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...base.config_file import ConfigFile
from ..results.column_state import ColumnState

FILE: Final = ConfigFile("panel.json", 1)


class PanelState(BaseModel):
    """The panel's last state; an empty value means: as at the first start.

    Attributes
    ----------
    model, device : str
    alpha : float
        Local to context.
    labels : str
        The text as it was typed.
    marks : dict
        Group and colour by label, for labels that have one of the two.
    none : bool
        Whether "None of these" is switched on.
    threshold : float or None
        Lowest similarity of a label.
    prompts, own_prompts : str
        Name of the prompt set, and the text of the user's own prompts.
    columns : ColumnState
    tab : str
        The tab in view.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = ""
    device: str = ""
    alpha: float = 0.0
    labels: str = ""
    marks: dict[str, tuple[str, str]] = Field(default_factory=dict)
    none: bool = False
    threshold: float | None = None
    prompts: str = ""
    own_prompts: str = ""
    columns: ColumnState = Field(default_factory=ColumnState)
    tab: str = ""


def read_state() -> tuple[PanelState, str]:
    """Return the last state, and one line that says why it was ignored."""
    values, problem = FILE.read()
    try:
        return PanelState(**values), problem
    except ValidationError:
        return PanelState(), FILE.unreadable


def write_state(state: PanelState) -> None:
    """Write the state to its file; raises OSError if that fails."""
    FILE.write(state.model_dump())
