"""The check of all images before the work, under a progress bar."""

from __future__ import annotations

from ...batch.running import Plan, check_images
from ..console import ProgressBar
from .images import NO_REGIONS


def problems_of(work: Plan) -> dict[str, str]:
    """Read all images and regions; return by name why some cannot be run."""
    problems = dict.fromkeys(work.bare, NO_REGIONS)
    with ProgressBar(remaining=True) as bar:
        for done, (name, problem) in enumerate(check_images(work.tasks), 1):
            bar.show("Checking images", done, len(work.tasks))
            if problem:
                problems[name] = problem
    return problems
