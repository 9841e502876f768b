"""The command ``methods``: how regions can be embedded."""

from __future__ import annotations

from rich.table import Table

from ..engine.methods.registry import TYPICAL, list_methods
from .console import print_table, say


def methods_command() -> None:
    """List the methods to embed a region: what they do and what they cost."""
    table = Table()
    for name in ("--method", "what the model sees, and where the embedding comes from"):
        table.add_column(name)
    table.add_column(f"{TYPICAL} regions cost, passes", justify="right")
    for spec in list_methods():
        cost = f"{spec.image + TYPICAL * spec.region:.0f}"
        table.add_row(spec.name, f"{spec.title}: {spec.about}", cost)
    print_table(table)
    say("Join two of them by + to average them, for example maskinversion+crop.")
