"""What the results shown lack, and what the one button does next: pure functions of a session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum

from ...base.wording import counted
from ...results.region_result import RegionResult
from .records import Staleness
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
    if session.run.progress.running:
        return NextStep.WAIT
    if session.run.image is None:
        return NextStep.OPEN_SAMPLE
    has_results = bool(session.run.results) and not session.run.elsewhere  # of the plane shown
    if session.run.regions is None or (session.run.region_count == 0 and not has_results):
        return NextStep.DRAW_REGIONS
    if session.run.vocabulary is None:
        return NextStep.CHOOSE_WORDS
    if not has_results:
        return NextStep.SUGGEST
    if staleness(session) and not session.run.live:
        return NextStep.UPDATE
    if session.run.missing and not session.run.live:
        return NextStep.CONTINUE
    if session.undecided:
        deciding = (
            session.status.tab == "review"
            and session.review.reviewing
            and session.reviewed is not None
        )
        return NextStep.DECIDE if deciding else NextStep.REVIEW
    if session.project.state is None or not session.project.state.current:
        return NextStep.EXPORT
    return NextStep.NEXT_IMAGE if session.project.state.next_open else NextStep.EXPORT_ALL


def staleness(session: Session) -> Staleness:
    """Return what has changed since the results shown were made; in live mode nothing, for long."""
    record = session.run.record
    if record is None:
        return Staleness()
    run = session.run
    # The words of results change without a run.
    chosen = replace(record.snapshot, vocabulary=record.results.info.vocabulary).recipe
    different = chosen.differences(session.run.snapshot().recipe)
    changed = [difference for difference in different if difference.needs_run]
    keys = {difference.key for difference in changed}
    return Staleness(
        words=run.vocabulary is not None and "labels" in keys,
        settings=any(difference.is_setting for difference in changed),
        # Nobody knows which layers a reopened image was shown in.
        image=run.image_changed or ("channels of layers" in keys and not record.reopened),
        scope="choice" in keys or run.others_picked,
        regions=len(run.changed_regions),
    )


def changed_rows(session: Session) -> frozenset[int]:
    """Return the rows of regions that were changed or removed since, or are computed; maybe all."""
    run = session.run
    changed_keys = run.changed_regions | run.computing
    rows = set[int]()
    if not changed_keys and not run.image_changed:
        return frozenset(rows)
    for row, region in enumerate(run.regions_with_results):
        if run.image_changed or region.key in changed_keys:
            rows.add(row)
    return frozenset(rows)


def outdated(session: Session, rows: Collection[int] | None = None) -> str:
    """Return why results, or rows of them, can be neither exported nor decided; "" if they can.

    They can while only the image's contrast or colours have changed.
    """
    run = session.run
    concerned: Sequence[RegionResult] = run.regions_with_results
    if rows is not None:
        concerned = [run.regions_with_results[row] for row in rows]
    changed = sum(region.key in run.changed_regions for region in concerned)
    since = "since these suggestions were made. Press Update, or undo the change."
    if concerned and run.pixels_changed:
        return f"The image has changed {since}"
    if changed:
        verb = "have" if changed > 1 else "has"
        return f"{counted(changed, 'region')} {verb} changed {since}"
    if concerned and run.comparing:
        return "Looking whether image and regions have changed; try again in a moment."
    return ""
