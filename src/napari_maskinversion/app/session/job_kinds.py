"""All kinds of jobs that the panel starts."""

from __future__ import annotations

from typing import Final

from .jobs import JobKind
from .subjects import region_selected, regions_shown, run_at_work, run_shown

EXPLAIN: Final = JobKind("explain", "The explanation", "latest", (region_selected, run_at_work))
COMPARE: Final = JobKind("compare", "The comparison", "latest", (region_selected, run_at_work))
FIND: Final = JobKind("find", "The search", "single")
MAP: Final = JobKind("map", "The map", "single")
CAPTIONS: Final = JobKind(
    "captions", "The caption bank", "single", kept="The captions that are embedded are kept."
)
GENERATE: Final = JobKind("generate", "Writing captions", "single", (regions_shown,))
CHECK_DECODER: Final = JobKind("check decoder", "The check of the decoder", "latest")
SEGMENT: Final = JobKind("segment", "The segmentation", "single")
PAINT_MASKS: Final = JobKind("paint masks", "Painting the masks", "latest")
ADD_TO_LIBRARY: Final = JobKind("add to library", "Adding to the library", "single")
UPDATE_LIBRARY: Final = JobKind("update library", "Decisions for the library", "queue")
IMAGINE: Final = JobKind("imagine", "The drawing", "single", (run_shown,))
