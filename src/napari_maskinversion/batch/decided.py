"""Decisions about the images of a project, without a window: read, counted, made for many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..base.errors import InputError
from ..base.identity import ImagePlace, RegionKey
from ..language.labels.vocabulary import NONE_OF_THESE
from ..library.adding import place_of
from ..library.library import Library
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.export.catalogue import FORMATS
from ..review.decisions import Decision, Step, Suggestion
from ..review.reporting import decided_bundle, decisions_of, identities_of, image_of
from ..review.review import Review
from ..review.together import Decided, ImageStep, Verdict, each_image
from .addresses import exists
from .finished import FILE, differences, read_finished
from .image_task import ALWAYS, ARCHIVES, file_name
from .opened import OpenProject

if TYPE_CHECKING:
    from ..results.region_result import RegionResult

ROUNDING: Final = 1e-6  # confidences have single precision: 0.9 is a little less


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a list of images shows of one."""

    regions: int | None = None  # None while they are not counted
    decided: int = 0
    flagged: int = 0  # Undecided regions whose suggestion is flagged
    suggested: bool = False  # Whether there are suggestions
    waiting: tuple[tuple[str, float], ...] = ()  # Word and confidence of undecided regions
    words: frozenset[str] = frozenset()  # That were accepted, or are suggested
    problem: str = ""  # Why it cannot be used; one line


def place_in(project: OpenProject, name: str) -> ImagePlace:
    """Return where an image is, as libraries have it."""
    series = project.by_name[name].series
    series = project.settings.series if series is None else series
    return place_of(project.path(name), series)


def archive_file(project: OpenProject, name: str) -> Path | None:
    """Return the archive of an image; None if it was not computed to its end."""
    folder = project.out / ARCHIVES / file_name(name)
    file = folder / FORMATS[ALWAYS].file
    return file if (folder / FILE).is_file() and file.is_file() else None


def add_to_library(project: OpenProject, name: str, library: Library | None = None) -> int:
    """Add the results of an image to a library, or to that of its project; return how many."""
    file = archive_file(project, name)
    if library is None and project.library is not None:
        library = Library.open(project.library, create=True)
    if library is None or file is None:
        return 0
    return library.add(file, image=project.path(name))


def update_library(project: OpenProject, name: str, library: Library) -> int:
    """Pass to a library the decisions about an image that it has; return how many are new there."""
    file = archive_file(project, name)
    if file is None:
        return 0
    return library.update(decided_bundle(open_archive(file), project.path(name)))


def stale_reasons(project: OpenProject, name: str, captions: str | None = None) -> list[str]:
    """Return what has changed since an image was computed; empty if nothing."""
    task = project.task(name, captions=captions or "")
    if task is None:
        return ["regions"]
    different = differences(task)
    return [one for one in different if captions is not None or one != "captions"]


def has_its_image(project: OpenProject, name: str) -> bool:
    """Return whether the file of an image is the one that was computed, as far as is known."""
    try:
        kept = read_finished(project.out / ARCHIVES / file_name(name))
    except InputError:
        return True
    return kept.image.fits(project.path(name))


def summarize(project: OpenProject, name: str) -> Summary:
    """Count regions, decisions and flags of an image that was computed."""
    file = archive_file(project, name)
    if file is None:
        return Summary()
    bundle = open_archive(file)
    decisions = decisions_of(bundle, project.path(name))
    return counted(bundle, decisions)


def counted(bundle: Bundle, decisions: Mapping[RegionKey, Decision]) -> Summary:
    """Count regions, decisions about them, and flags of the others."""
    regions = bundle.results.regions
    open_ = [region for region in regions if region.key not in decisions]
    return Summary(
        regions=len(regions),
        decided=len(regions) - len(open_),
        flagged=sum(region.flagged for region in open_),
        suggested=bundle.results.info.vocabulary is not None,
        waiting=tuple(
            (one.suggestion, float(one.ranking.probabilities[0]))
            for one in open_
            if one.ranking is not None and one.suggestion
        ),
        words=words_of((one.suggestion for one in open_), decisions.values()),
    )


def words_of(suggestions: Iterable[str], decisions: Iterable[Decision]) -> frozenset[str]:
    """Return the words of undecided and of accepted regions."""
    words = {*suggestions, *(decision.label for decision in decisions)}
    return frozenset(words - {"", NONE_OF_THESE})


def accept_steps(
    project: OpenProject, names: Iterable[str], word: str, confidence: float
) -> Iterator[ImageStep]:
    """Accept a word in many images wherever it is suggested and nothing is decided."""
    return each_image(names, lambda name: _accept(project, name, word, confidence - ROUNDING))


def decide_steps(project: OpenProject, verdict: Verdict) -> Iterator[ImageStep]:
    """Decide about regions of many images."""
    return each_image(verdict.regions, lambda name: _decide(project, name, verdict))


def take_back_steps(project: OpenProject, decided: Decided) -> Iterator[ImageStep]:
    """Take back what was decided in many images, unless somebody has decided again."""
    steps = decided.steps
    return each_image(steps, lambda name: _take_back(project, name, steps[name]))


def _accept(project: OpenProject, name: str, word: str, confidence: float) -> Step:
    file = archive_file(project, name)
    if file is None:
        return ()
    bundle = open_archive(file)
    likely = [
        region
        for region in bundle.results.regions
        if region.suggestion == word
        and region.ranking is not None
        and float(region.ranking.probabilities[0]) >= confidence
    ]
    if not likely:
        return ()
    _check_fresh(project, name)
    with _review(project, name, bundle) as own:
        decisions = [
            Decision(
                region=region.key,
                status="accepted",
                label=word,
                suggestion=_suggestion(region),
            )
            for region in likely
            if region.key not in own.decisions
        ]
        return own.decide(*decisions) if decisions else ()


def _decide(project: OpenProject, name: str, verdict: Verdict) -> Step:
    file = archive_file(project, name)
    if file is None:
        raise InputError("it has no suggestions any more; compute it again first")
    _check_fresh(project, name)
    bundle, wanted = open_archive(file), set(verdict.regions[name])
    regions = [one for one in bundle.results.regions if one.key in wanted]
    decisions = verdict.decisions({one.key: _suggestion(one) for one in regions})
    with _review(project, name, bundle) as own:
        return own.decide(*decisions) if decisions else ()


def _check_fresh(project: OpenProject, name: str) -> None:
    if not exists(file := project.path(name)):
        raise InputError(f"its file is not there any more: {file}")
    if reasons := stale_reasons(project, name):
        raise InputError(f"it was computed from other {', '.join(reasons)}; compute it again first")


def _take_back(project: OpenProject, name: str, step: Step) -> Step:
    file = archive_file(project, name)
    if file is None or not step:
        return ()
    with _review(project, name, open_archive(file)) as own:
        return own.take_back(step)


def _review(project: OpenProject, name: str, bundle: Bundle) -> Review:
    info, file = bundle.results.info, project.path(name)
    return Review(image_of(bundle), identities_of(bundle), info, file=file)


def _suggestion(region: RegionResult) -> Suggestion | None:
    ranking = region.ranking
    if ranking is None:
        return None
    return Suggestion(
        label=region.suggestion,
        rank=1,
        similarity=float(ranking.similarities[0]),
        score=float(ranking.probabilities[0]),
    )
