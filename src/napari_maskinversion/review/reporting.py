"""Decisions in exports: columns of the table and entries of the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..base.identity import ImageIdentity, RegionKey, identify
from ..results.export.bundle import Bundle
from ..results.results import Results
from .decision_log import read_saved
from .decisions import Decision
from .matching import restore


def with_decisions(bundle: Bundle, name: str) -> Bundle:
    """Return a bundle with the decisions that were saved with it as columns and records."""
    if not bundle.decisions or bundle.columns:
        return bundle
    regions = [identify(mask.unpack(), place) for (place, _), mask in bundle.masks.items()]
    image = ImageIdentity("", (), "", "")
    runs = read_saved(bundle.decisions, name)
    decisions = restore(runs, image, regions, any_image=True).decisions
    return replace(
        bundle,
        columns=decision_columns(bundle.results, decisions),
        records=decision_records(bundle.results, decisions),
    )


def decision_columns(
    results: Results, decisions: Mapping[RegionKey, Decision]
) -> dict[str, list[str]]:
    """Return columns for `Bundle`: decision, accepted_label, decided_at."""
    rows = _of(results, decisions)
    return {
        "decision": ["undecided" if row is None else row.status for row in rows],
        "accepted_label": ["" if row is None else row.label for row in rows],
        "decided_at": ["" if row is None else row.time for row in rows],
    }


def decision_records(
    results: Results, decisions: Mapping[RegionKey, Decision]
) -> list[dict[str, Any]]:
    """Return JSON entries for `Bundle`: decision, label, time and the suggestion it was about."""
    return [{"review": _record(decision)} for decision in _of(results, decisions)]


def _of(results: Results, decisions: Mapping[RegionKey, Decision]) -> list[Decision | None]:
    return [decisions.get(RegionKey(region.id, region.position)) for region in results.regions]


def _record(decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        return {"decision": "undecided", "label": None, "time": None, "suggested": None}
    suggestion = decision.suggestion
    return {
        "decision": decision.status,
        "label": decision.label or None,
        "time": decision.time,
        "suggested": None
        if suggestion is None
        else {"label": suggestion.label, "rank": suggestion.rank, "by": suggestion.by},
    }
