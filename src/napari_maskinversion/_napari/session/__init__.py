"""The one observable state of the panel, and what follows it. Knows no Qt."""

from .next_step import NextStep, next_step
from .records import (
    NOTHING,
    ResultRecord,
    Scope,
    Snapshot,
    Staleness,
    same_regions,
    same_run,
)
from .session import SWITCH, Session, session_of
from .topic import Topic
from .values import Download, ManyImages, Phase, ProjectState, RegionPlace, RunState

__all__ = [
    "NOTHING",
    "SWITCH",
    "Download",
    "ManyImages",
    "NextStep",
    "Phase",
    "ProjectState",
    "RegionPlace",
    "ResultRecord",
    "RunState",
    "Scope",
    "Session",
    "Snapshot",
    "Staleness",
    "Topic",
    "next_step",
    "same_regions",
    "same_run",
    "session_of",
]
