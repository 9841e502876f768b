"""The one observable state of the panel, and what follows it. Knows no Qt."""

from .next_step import NextStep, changed_rows, next_step, outdated, staleness
from .records import NOTHING, ResultRecord, Scope, Snapshot, Staleness, same_regions, same_run
from .session import SWITCH, Session, Topic, session_of
from .state import Download, ManyImages, Phase, ProjectState, RegionPlace, RunState

__all__ = ["NOTHING", "SWITCH", "Download", "ManyImages", "NextStep", "Phase", "ProjectState"]
__all__ += ["RegionPlace", "ResultRecord", "RunState", "Scope", "Session", "Snapshot"]
__all__ += ["Staleness", "Topic", "changed_rows", "next_step", "outdated", "same_regions"]
__all__ += ["same_run", "session_of", "staleness"]
