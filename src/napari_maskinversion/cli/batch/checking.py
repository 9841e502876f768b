"""The check of all images before the work, under a progress bar."""

from __future__ import annotations

from typing import Final

from ...batch.running import Plan, check_images
from ..console import ProgressBar, say
from .images import NO_REGIONS

_SAID: Final = 3  # notes in full


def problems_of(work: Plan) -> dict[str, str]:
    """Read all images and regions; return by name why some cannot be run."""
    problems = dict.fromkeys(work.bare, NO_REGIONS)
    notes: list[str] = []
    with ProgressBar(remaining=True) as bar:
        for done, (name, problem) in enumerate(check_images(work.tasks, notes.append), 1):
            bar.show("Checking images", done, len(work.tasks))
            if problem:
                problems[name] = problem
    for note in notes[:_SAID]:
        say(note)
    if len(notes) > _SAID:
        say(f"The same holds of other images: {len(notes) - _SAID} more lines like these.")
    return problems
