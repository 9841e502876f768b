"""Decisions as results are exported with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.identity import RegionKey
from ..results.results import Results
from .decisions import Decision


def decision_columns(
    results: Results, decisions: Mapping[RegionKey, Decision]
) -> dict[str, list[str]]:
    """Return columns for `Bundle`: decision, accepted_label, decided_at.

    Parameters
    ----------
    results : Results
    decisions : mapping of RegionKey to Decision
        `Review.decisions`; the last two columns are empty where there is none.
    """
    found = _of(results, decisions)
    return {
        "decision": ["undecided" if d is None else d.status for d in found],
        "accepted_label": ["" if d is None else d.label for d in found],
        "decided_at": ["" if d is None else d.time for d in found],
    }


def decision_records(
    results: Results, decisions: Mapping[RegionKey, Decision]
) -> list[dict[str, Any]]:
    """Return JSON entries for `Bundle`: decision, label, time and the suggestion it was about.

    Parameters
    ----------
    results : Results
    decisions : mapping of RegionKey to Decision
    """
    return [{"review": _record(decision)} for decision in _of(results, decisions)]


def _of(results: Results, decisions: Mapping[RegionKey, Decision]) -> list[Decision | None]:
    return [decisions.get(RegionKey(region.id, region.position)) for region in results.regions]


def _record(decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        return {"decision": "undecided", "label": None, "time": None, "suggested": None}
    taken = decision.suggestion
    return {
        "decision": decision.status,
        "label": decision.label or None,
        "time": decision.time,
        "suggested": None
        if taken is None
        else {"label": taken.label, "rank": taken.rank, "by": taken.by},
    }
