"""What the one button of the panel does next: a pure function of the session."""

from __future__ import annotations

from enum import Enum

from .session import Session


class NextStep(Enum):
    """What the one button of the panel does next."""

    OPEN_SAMPLE = "open sample"
    DRAW_REGIONS = "draw regions"
    CHOOSE_WORDS = "choose words"
    SUGGEST = "suggest"
    WAIT = "wait"
    UPDATE = "update"
    CONTINUE = "continue"
    REVIEW = "review"
    DECIDE = "decide"
    EXPORT = "export"
    NEXT_IMAGE = "next image"
    EXPORT_ALL = "export all"


def next_step(session: Session) -> NextStep:
    """Return what the one button does."""
    if session.run.running:
        return NextStep.WAIT
    if session.image is None:
        return NextStep.OPEN_SAMPLE
    here = session.results and not session.elsewhere  # results of the plane shown
    if session.regions is None or (session.region_count == 0 and not here):
        return NextStep.DRAW_REGIONS
    if session.vocabulary is None:
        return NextStep.CHOOSE_WORDS
    if not here:
        return NextStep.SUGGEST
    if session.stale and not session.live:
        return NextStep.UPDATE
    if session.missing and not session.live:
        return NextStep.CONTINUE
    if session.undecided:
        deciding = session.tab == "review" and session.reviewing and session.reviewed is not None
        return NextStep.DECIDE if deciding else NextStep.REVIEW
    if session.project is None or not session.project.current:
        return NextStep.EXPORT
    return NextStep.NEXT_IMAGE if session.project.next_open else NextStep.EXPORT_ALL
