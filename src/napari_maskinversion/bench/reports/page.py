"""The figures of a finished measurement."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..measures.figures_file import figures_page
from ..measures.measuring import Measuring
from ..measures.metrics import figures


def make_page(kind: str, job: Measuring) -> dict[str, Any]:
    """Summarise the records of a plan: one part per model and entry.

    Skipped images count for none of them.
    """
    plan, dataset = job.plan, job.dataset
    keys = [key for key in job.keys if key not in job.skipped]
    parts = {}
    for model in plan.models:
        for entry in plan.entries:
            about = {"model": model, "key": entry.key, "title": entry.title, **entry.settings()}
            parts[f"{model}: {entry.key}"] = about
            if (model, entry.key) in job.lacks:
                about["lacks"] = job.lacks[model, entry.key]
                continue
            records = [(key, job.store.records[model, entry.key, key]) for key in keys]
            about |= figures(records, len(dataset.classes))
    first = next(part for part in parts.values() if "lacks" not in part)
    settings = {
        **plan.settings(dataset),
        "context": plan.shown_context(dataset),
        "models": list(plan.models),
        "fingerprints": job.fingerprints,
    }
    return figures_page(kind, settings, parts) | {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "images": first["images"],
        "regions": first["regions"],
        "small": first["small"],
        "skipped": job.skipped,
    }
