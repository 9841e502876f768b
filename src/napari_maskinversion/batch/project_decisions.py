"""Decisions about the images of a project, without a window: read, counted, made for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ..base.errors import InputError, MaskInversionError
from ..base.identity import RegionKey
from ..base.progress import listening
from ..base.wording import one_line
from ..language.labels.vocabulary import NONE_OF_THESE
from ..library.library import Library
from ..results.export.bundle import Bundle
from ..review.decisions import Decision, Step, Suggestion
from ..review.multi_image_decisions import DecisionOutcome, DecisionRequest, ImageStep, each_image
from ..review.review import Review
from .addresses import exists
from .finished import differences, read_finished
from .image_task import ARCHIVES, file_name
from .opened import OpenProject
from .project_index import (
    IndexedImage,
    ProjectIndex,
    RegionRow,
    archive_file,
    decided_row,
    library_row,
)

_WRITTEN_TOGETHER: Final = 250  # images; each write to the index waits for the disk
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


def keep_computed(
    project: OpenProject, name: str, library: Library | None = None
) -> tuple[int, str]:
    """Add an image that was computed to the index of its project, and to a library.

    Returns how many regions the library, or that of the project, took, and why it could not. What
    the index could not take, its next refresh reads.
    """
    with suppress(MaskInversionError, OSError), listening(_ignore):
        ProjectIndex.open(project).refresh([name])
    try:
        return add_to_library(project, name, library), ""
    except MaskInversionError as error:
        return 0, f"not added to the library: {one_line(error)}"


def _ignore(_: object) -> None:
    """Tell nobody of an image that is read in a moment."""


def add_to_library(project: OpenProject, name: str, library: Library | None = None) -> int:
    """Add the results of an image to a library, or to that of its project; return how many."""
    file = archive_file(project, name)
    if library is None and project.library is not None:
        library = Library.open(project.library, create=True)
    if library is None or file is None:
        return 0
    return library.add(file, image=project.path(name))


class DecidedImages:
    """The images of a project while decisions are made about them: their counts, without files."""

    def __init__(self, project: OpenProject) -> None:
        index = ProjectIndex.open(project)
        self._images = index.images()
        self._regions = index.regions(self._images.values())

    def take(self, name: str, step: Step, library: Library | None = None) -> Summary | None:
        """Take decisions about an image, and pass them to a library that has it; count again."""
        image = self._images.get(name)
        if image is None:
            return None
        regions = {region.key: region for region in self._regions[name]}
        rows = []
        for change in step:
            if (region := regions.get(change.region)) is not None:
                regions[region.key] = decided_row(region, change.after)
                rows.append(library_row(image, regions[region.key], change.after))
        self._regions[name] = list(regions.values())
        if library is not None:
            with suppress(MaskInversionError, OSError):  # the files have them
                library.store.update(image.identity.content, rows)
        return _counted_rows(self._regions[name], suggested=image.suggested)


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


def summaries(index: ProjectIndex, names: Iterable[str]) -> dict[str, Summary]:
    """Count regions, decisions and flags of images, from the index as it is."""
    names = list(names)
    images = index.images(names)
    counts = {name: Summary() for name in names}
    for name, regions in index.regions(images.values()).items():
        counts[name] = _counted_rows(regions, suggested=images[name].suggested)
    for name in names:
        if problem := index.problems.get(name):
            counts[name] = Summary(problem=problem)
    return counts


def summarize(project: OpenProject, name: str) -> Summary:
    """Count regions, decisions and flags of an image that was computed."""
    index = ProjectIndex.fresh(project, [name])
    if problem := index.problems.get(name):
        raise InputError(problem)
    return summaries(index, [name])[name]


def _counted_rows(regions: Sequence[RegionRow], *, suggested: bool) -> Summary:
    """Do the same as `counted` with rows of an index."""
    undecided = [region for region in regions if region.decision == "undecided"]
    ranked = [region for region in undecided if region.confidence is not None]
    waiting = [(region.suggestion, region.confidence or 0.0) for region in ranked]
    words = {region.suggestion for region in ranked}
    words |= {region.label for region in regions if region.decision == "accepted"}
    return Summary(
        regions=len(regions),
        decided=len(regions) - len(undecided),
        flagged=sum(region.flagged for region in undecided),
        suggested=suggested,
        waiting=tuple((word, confidence) for word, confidence in waiting if word),
        words=frozenset(words - {"", NONE_OF_THESE}),
    )


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

    def accept(known: _Known) -> Step:
        likely = [
            region
            for region in known.regions
            if region.suggestion == word
            and region.confidence is not None
            and region.confidence >= confidence - ROUNDING
        ]
        if not any(region.decision == "undecided" for region in likely):
            return ()
        _check_fresh(project, known.image.name)

        def decide(review: Review) -> Step:
            decisions = [
                Decision(
                    region=region.key, status="accepted", label=word, suggestion=_suggestion(region)
                )
                for region in likely
                if region.key not in review.decisions
            ]
            return review.decide(*decisions) if decisions else ()

        return known.decide(decide)

    return _each(project, names, lambda _, known: () if known is None else accept(known))


def decide_steps(project: OpenProject, request: DecisionRequest) -> Iterator[ImageStep]:
    """Decide about regions of many images."""

    def decide(name: str, known: _Known | None) -> Step:
        if known is None:
            raise InputError("it has no suggestions any more; compute it again first")
        _check_fresh(project, name)
        wanted = set(request.regions[name])
        regions = [region for region in known.regions if region.key in wanted]
        decisions = request.decisions({region.key: _suggestion(region) for region in regions})
        return known.decide(lambda review: review.decide(*decisions) if decisions else ())

    return _each(project, request.regions, decide)


def take_back_steps(project: OpenProject, decided: DecisionOutcome) -> Iterator[ImageStep]:
    """Take back what was decided in many images, unless somebody has decided again."""

    def take_back(name: str, known: _Known | None) -> Step:
        step = decided.steps[name]
        if known is None or not step:
            return ()
        return known.decide(lambda review: review.take_back(step))

    return _each(project, decided.steps, take_back)


@dataclass(frozen=True, slots=True)
class _Known:
    """An image of the index with its regions."""

    index: ProjectIndex
    image: IndexedImage
    regions: Sequence[RegionRow]

    def decide(self, decide: Callable[[Review], Step]) -> Step:
        """Decide in the file of the image."""
        return self.index.decide(self.image, self.regions, decide)


def _each(
    project: OpenProject, names: Iterable[str], decide: Callable[[str, _Known | None], Step]
) -> Iterator[ImageStep]:
    """Decide image by image in the images' files; the index learns of it, some at a time."""
    names = list(names)
    index = ProjectIndex.fresh(project, [name for name in names if name in project.by_name])
    images = index.images(names)
    regions = index.regions(images.values())

    def work(name: str) -> Step:
        if problem := index.problems.get(name):
            raise InputError(problem)
        if name not in images:
            return decide(name, None)
        return decide(name, _Known(index, images[name], regions[name]))

    try:
        for number, image_step in enumerate(each_image(names, work), 1):
            if not number % _WRITTEN_TOGETHER:
                index.keep_decided()
            yield image_step
    finally:  # also if nobody goes on
        index.keep_decided()


def _check_fresh(project: OpenProject, name: str) -> None:
    if not exists(file := project.path(name)):
        raise InputError(f"its file is not there any more: {file}")
    if reasons := stale_reasons(project, name):
        raise InputError(f"it was computed from other {', '.join(reasons)}; compute it again first")


def _suggestion(region: RegionRow) -> Suggestion | None:
    if region.confidence is None or region.similarity is None:
        return None
    return Suggestion(
        label=region.suggestion,
        rank=1,
        similarity=region.similarity,
        score=region.confidence,
    )
