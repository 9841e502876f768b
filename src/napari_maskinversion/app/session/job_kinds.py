"""All kinds of jobs that the panel starts."""

from __future__ import annotations

from typing import Final

from .jobs import JobKind
from .subjects import (
    channels_chosen,
    image_chosen,
    image_opening,
    is_live,
    layers_chosen,
    library_chosen,
    model_chosen,
    plane_in_view,
    region_selected,
    regions_shown,
    results_shown,
    review_open,
    review_target,
    run_at_work,
    run_regions,
    run_shown,
)

# -- what a run takes -----------------------------------------------------------------------------

READ_MODEL: Final = JobKind("read model", "Reading the model", "latest", (model_chosen,))
LIST_ARCHITECTURES: Final = JobKind("list architectures", "The list of architectures", "single")
DOWNLOAD: Final = JobKind("download", "The download", "single")
LOOK_AT_IMAGE: Final = JobKind(
    "look at image",
    "Looking at the image",
    "latest",
    (image_chosen, plane_in_view, channels_chosen, model_chosen),
)
READ_WORDS: Final = JobKind("read words", "Reading words", "latest")
SAVE_WORDS: Final = JobKind("save words", "Saving words", "queue")
COUNT_WORDS: Final = JobKind("count words", "Counting the words", "latest")
RERANK: Final = JobKind("rerank", "Applying words and limits", "latest", (results_shown,))
READ_REGIONS: Final = JobKind("read regions", "Reading regions", "latest")
ESTIMATE: Final = JobKind("estimate", "The estimate", "latest")

# -- runs and their results -----------------------------------------------------------------------

RUN: Final = JobKind("run", "The run", "single", kept="The regions finished before are kept.")
LIVE: Final = JobKind("live", "Live mode", "latest", (layers_chosen, is_live, run_at_work))
COMPARE_WITH_RESULTS: Final = JobKind(
    "compare with results", "Comparing with the results", "latest", (run_regions,)
)
EXPORT: Final = JobKind("export", "The export", "queue")
OPEN_RESULTS: Final = JobKind(
    "open results", "Opening results", "latest", (image_chosen, run_at_work)
)

# -- the review -----------------------------------------------------------------------------------

FIND_DECISIONS: Final = JobKind(
    "find decisions", "Looking for decisions", "latest", (review_target,)
)
OPEN_REVIEW: Final = JobKind("open review", "Opening the review", "latest")
LEARN: Final = JobKind("learn", "Learning from decisions", "latest", (results_shown, review_open))
TRAIN: Final = JobKind("train", "Learning a classifier", "latest", (review_open,))
KEEP_ACCEPTED: Final = JobKind("keep accepted", "Keeping accepted regions", "queue")
CROP: Final = JobKind("crop", "The crop", "latest", (review_open,))
SAVE_CLASSIFIER: Final = JobKind("save classifier", "Saving the classifier", "queue")

# -- the images of a project ----------------------------------------------------------------------

OPEN_PROJECT: Final = JobKind("open project", "Opening the project", "latest")
READ_IMAGE: Final = JobKind("read image", "Opening the image", "latest", (image_opening,))
PREPARE_IMAGE: Final = JobKind("prepare image", "Preparing the next image", "latest")
LIST_IMAGES: Final = JobKind("list images", "Listing images", "latest")
KEEP_PROJECT: Final = JobKind("keep project", "Keeping the project", "queue")
WORK_ON_IMAGES: Final = JobKind("work on images", "The work on all images", "single")
# What somebody has decided is saved, also when the window closes meanwhile.
DECIDE: Final = JobKind("decide", "Deciding", "queue")
FIND_REGION: Final = JobKind(
    "find region", "Opening the image", "latest", (image_chosen, library_chosen)
)

# -- the panel ------------------------------------------------------------------------------------

SAVE_PANEL: Final = JobKind("save panel", "Saving the panel", "queue")
MEASURE_CACHE: Final = JobKind("measure cache", "Measuring the cache", "latest")
CLEAR_CACHE: Final = JobKind("clear cache", "Clearing the cache", "queue")
CHECK_INSTALLATION: Final = JobKind("check installation", "The check of the installation", "single")

# -- to explore ----------------------------------------------------------------------------------

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
READ_GALLERY: Final = JobKind("read gallery", "Reading the regions", "latest")
READ_PICTURES: Final = JobKind("read pictures", "Reading pictures", "latest")
IMAGINE: Final = JobKind("imagine", "The drawing", "single", (run_shown,))
