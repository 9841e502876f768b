"""Decisions about saved results: columns and records of exports, and answers to calibrate with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..base.errors import InputError
from ..base.identity import ImageIdentity, RegionIdentity, RegionKey, identify
from ..base.reading import MOST_JSON, read_bytes
from ..language.ranking.uncertainty import Calibration, calibrate
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.recipe import Recipe
from ..results.region_result import RegionResult
from ..results.results import Results
from .decision_file import SUFFIX, Run, read, read_runs, read_saved
from .decisions import Decision, Decisions
from .matching import restore

_LIMITED: Final = ("weights", "method.name", "inversion.explainer")

Answers = list[tuple[RegionResult, bool]]
"""Regions, and whether their suggestion was right."""


def _restored(
    bundle: Bundle, runs: Iterable[Run], image: ImageIdentity, *, any_image: bool = False
) -> Decisions:
    return restore(list(runs), image, identities_of(bundle), any_image=any_image).decisions


def with_decisions(bundle: Bundle, name: str) -> Bundle:
    """Return a bundle with the decisions that were saved with it as columns and records."""
    if not bundle.decisions or bundle.columns:
        return bundle
    runs = read_saved(bundle.decisions, name)
    image = ImageIdentity()
    decisions = _restored(bundle, runs, image, any_image=True)
    return replace(
        bundle,
        columns=decision_columns(bundle.results, decisions),
        records=decision_records(bundle.results, decisions),
    )


def identities_of(bundle: Bundle) -> list[RegionIdentity]:
    """Return what tells the regions of an archive from others."""
    return [identify(mask.unpack(), place) for (place, _), mask in bundle.masks.items()]


def image_of(bundle: Bundle) -> ImageIdentity:
    """Return what tells the image of an archive from others."""
    if not bundle.image.content:
        raise InputError("The archive does not say which image it is of; run it again.")
    return bundle.image


def decisions_of(bundle: Bundle, image: Path) -> Decisions:
    """Read the decisions about the regions of an archive; the file is not locked."""
    identity = image_of(bundle)
    runs = read_runs(image, identity)
    if bundle.decisions and not runs:
        runs = read(bundle.decisions, "The archive").runs
    return restore(runs, identity, identities_of(bundle)).decisions


def decided_bundle(bundle: Bundle, image: Path) -> Bundle:
    """Return a bundle with the decisions about it as columns and records."""
    decisions = decisions_of(bundle, image)
    return replace(
        bundle,
        columns=decision_columns(bundle.results, decisions),
        records=decision_records(bundle.results, decisions),
    )


def decision_columns(
    results: Results, decisions: Mapping[RegionKey, Decision]
) -> dict[str, list[str]]:
    """Return columns for `Bundle`: decision, accepted_label, decided_at."""
    columns: dict[str, list[str]] = {"decision": [], "accepted_label": [], "decided_at": []}
    for decision in _of(results, decisions):
        cells = ("undecided", "", "")
        if decision is not None:
            cells = (decision.status, decision.label, decision.time)
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return columns


def decision_records(
    results: Results, decisions: Mapping[RegionKey, Decision]
) -> list[dict[str, Any]]:
    """Return JSON entries for `Bundle`: decision, label, time and the suggestion it was about."""
    return [{"review": _record(decision)} for decision in _of(results, decisions)]


def _of(results: Results, decisions: Mapping[RegionKey, Decision]) -> list[Decision | None]:
    return [decisions.get(region.key) for region in results.regions]


def _record(decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        return {"decision": "undecided", "label": None, "time": None, "suggested": None}
    suggestion = decision.suggestion
    suggested = None
    if suggestion is not None:
        suggested = {"label": suggestion.label, "rank": suggestion.rank, "by": suggestion.by}
    return {
        "decision": decision.status,
        "label": decision.label or None,
        "time": decision.time,
        "suggested": suggested,
    }


def calibrate_from_files(model: str, files: Sequence[Path]) -> tuple[Calibration, Results]:
    """Choose the limits of a model from reviewed results.

    An accepted region is right if its label is the best one of the results, else wrong; a rejected
    one is wrong; skipped and undecided ones do not count.
    """
    logs = [path for path in files if path.name.endswith(SUFFIX)]
    archives = [path for path in files if path not in logs]
    if not archives:
        raise InputError(
            "Limits need results: name at least one results.npz; decision files alone do not hold "
            "margins and overlaps."
        )
    runs: list[Run] = []
    for path in logs:
        data = read_bytes(path, "decision file", most=MOST_JSON)
        runs += read(data, str(path)).runs
    bundles = {path: open_archive(path) for path in archives}
    first = bundles[archives[0]].results
    _check(model, bundles)
    by_region = {}
    for path, bundle in bundles.items():
        for row, right in decided(bundle, runs, path):
            by_region[(bundle.image.content, row.position, row.id)] = (row, right)
    margins = []
    overlaps = []
    is_right = []
    for row, right in by_region.values():  # a region that two files hold counts once
        margins.append(row.margin)
        overlaps.append(row.iou)
        is_right.append(right)
    source = ", ".join(path.name for path in files)
    calibration = calibrate(margins, overlaps, is_right, source=source)
    return calibration, first


def decided(bundle: Bundle, runs: Iterable[Run], path: Path) -> Answers:
    """Return the decided regions of saved results, and whether their suggestion was right."""
    saved_runs: tuple[Run, ...] = ()
    if bundle.decisions:
        saved_runs = read_saved(bundle.decisions, str(path))
    decisions = _restored(bundle, [*saved_runs, *runs], image_of(bundle))
    answers: Answers = []
    # What was learned from these decisions would be right about them.
    for row in bundle.results.without_decisions().regions:
        decision = decisions.get(row.key)
        if decision is None or decision.status == "skipped" or row.ranking is None:
            continue
        answers.append((row, decision.label == row.ranking.labels[0]))
    return answers


def _check(model: str, bundles: dict[Path, Bundle]) -> None:
    """Refuse results whose limits would differ: limits belong to weights, method and map."""
    first = None
    recipe = Recipe()
    for path, bundle in bundles.items():
        info = bundle.results.info
        if info.model != model:
            raise InputError(f"{path} holds results of the model {info.model}, not of {model}.")
        if first is None:
            first = path
            recipe = bundle.recipe.only(*_LIMITED)
        elif recipe.differences(bundle.recipe):
            raise InputError(
                f"{path} was computed with other weights, another method or another map than "
                f"{first}; calibrate each by itself."
            )
