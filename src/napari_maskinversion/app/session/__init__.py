"""The one observable state of the panel, and what follows it. Knows no Qt."""

from ..review.region_place import RegionPlace
from .actions import Action
from .next_step import NextStep, changed_rows, next_step, outdated, staleness
from .records import (
    NOTHING,
    ResultRecord,
    Scope,
    Snapshot,
    Staleness,
    only_ranked_again,
    same_regions,
    same_run,
)
from .region_order import RegionOrder, SimilarRegion
from .session import Session, session_of
from .session_models import MappedResults
from .state import Phase, ProjectState, RunState
from .topic import Topic

__all__ = ["NOTHING", "Action", "MappedResults", "NextStep", "Phase"]
__all__ += ["RegionOrder", "SimilarRegion"]
__all__ += ["ProjectState", "RegionPlace", "ResultRecord", "RunState", "Scope", "Session"]
__all__ += ["Snapshot", "Staleness", "Topic", "changed_rows", "next_step", "only_ranked_again"]
__all__ += ["outdated"]
__all__ += ["same_regions", "same_run", "session_of", "staleness"]
