"""What becomes of the images of a batch, run by the command line or the panel."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..library.library import Library
from .image_task import Report
from .opened import OpenProject
from .project_decisions import keep_computed


@dataclass(slots=True)
class BatchOutcome:
    """What became of the images of a batch so far."""

    project: OpenProject
    library: Library | None = None  # That takes the regions; None: that of the project, if any
    computed: int = 0  # Images
    added: int = 0  # Regions that the library took
    problems: dict[str, str] = field(default_factory=dict)  # Why images failed, by name
    bare: dict[str, str] = field(default_factory=dict)  # Images without regions, and what was said
    not_added: dict[str, str] = field(default_factory=dict)  # Why the library lacks computed images
    disk_full: str = ""  # Why nothing more could be written; "" if there was room

    def take(self, report: Report) -> None:
        """Take the report of an image.

        One that was computed enters index and library at once, so that it is there if the batch is
        killed.
        """
        if report.is_disk_full:
            self.disk_full = report.problem
            return
        if report.problem:
            reasons = self.bare if report.bare else self.problems
            reasons[report.name] = report.problem
            return
        self.computed += 1
        regions, problem = keep_computed(self.project, report.name, self.library)
        self.added += regions
        if problem:
            self.not_added[report.name] = problem
