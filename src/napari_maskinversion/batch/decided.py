"""Decisions about the images of a project, without a window: read, counted, made for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base.errors import InputError, InUseError, MaskInversionError
from ..base.identity import RegionKey
from ..library.library import Library
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.export.catalogue import FORMATS
from ..review.decisions import Decision, Suggestion
from ..review.reporting import decided_bundle, decisions_of, identities_of, image_of
from ..review.review import Review
from .finished import FILE, differences
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
    problem: str = ""  # Why it cannot be used; one line


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What one acceptance across images did."""

    word: str
    # Keys of the regions by name of the image
    regions: Mapping[str, Sequence[RegionKey]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)  # Why images were left out, by name
    stopped: bool = False  # by the user, before the last image

    @property
    def count(self) -> int:
        """How many regions were accepted."""
        return sum(map(len, self.regions.values()))


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
    open_ = [region for region in regions if _key(region) not in decisions]
    return Summary(
        regions=len(regions),
        decided=len(regions) - len(open_),
        flagged=sum(region.flagged for region in open_),
        suggested=bundle.results.info.vocabulary is not None,
        waiting=waiting_of(open_),
    )


def waiting_of(regions: Iterable[RegionResult]) -> tuple[tuple[str, float], ...]:
    """Return suggested word and confidence of regions that have one."""
    return tuple(
        (one.suggestion, float(one.ranking.probabilities[0]))
        for one in regions
        if one.ranking is not None and one.suggestion
    )


Step = tuple[str, Sequence[RegionKey], str]  # name of an image, its regions, why it was left out


def accept_steps(
    project: OpenProject, names: Iterable[str], word: str, confidence: float
) -> Iterator[Step]:
    """Accept a word in many images wherever it is suggested and nothing is decided."""
    return _each(names, lambda name: _accept(project, name, word, confidence - ROUNDING))


def take_back_steps(project: OpenProject, accepted: Accepted) -> Iterator[Step]:
    """Make regions undecided that `accept_steps` accepted, unless somebody has decided again."""
    keys = accepted.regions
    return _each(keys, lambda name: _take_back(project, name, accepted.word, keys[name]))


def _each(names: Iterable[str], work: Callable[[str], Sequence[RegionKey]]) -> Iterator[Step]:
    for name in names:
        try:
            yield name, work(name), ""
        except InUseError:
            yield name, (), "its decisions are open in another window or program"
        except (MaskInversionError, OSError) as error:
            yield name, (), " ".join(str(error).split())


def rows_above(
    regions: Iterable[RegionResult], word: str, confidence: float
) -> Iterator[RegionResult]:
    """Yield the regions for which a word is suggested with at least a confidence."""
    for region in regions:
        ranking = region.ranking
        if (
            ranking is not None
            and region.suggestion == word
            and float(ranking.probabilities[0]) >= confidence
        ):
            yield region


def _accept(project: OpenProject, name: str, word: str, confidence: float) -> Sequence[RegionKey]:
    file = archive_file(project, name)
    bundle = None if file is None else open_archive(file)
    likely = [] if bundle is None else list(rows_above(bundle.results.regions, word, confidence))
    if bundle is None or not likely:
        return ()
    if reasons := stale_reasons(project, name):
        raise InputError(f"it was computed from other {', '.join(reasons)}; compute it again first")
    with _review(project, name, bundle) as own:
        decisions = [
            Decision(
                region=_key(region),
                status="accepted",
                label=word,
                suggestion=_suggestion(region),
            )
            for region in likely
            if _key(region) not in own.decisions
        ]
        if decisions:
            own.decide(*decisions)
    return [decision.region for decision in decisions]


def _take_back(
    project: OpenProject, name: str, word: str, keys: Sequence[RegionKey]
) -> Sequence[RegionKey]:
    file = archive_file(project, name)
    if file is None or not keys:
        return ()
    with _review(project, name, open_archive(file)) as own:
        last = own.decisions.last
        is_ours = all(change.after is not None and change.after.label == word for change in last)
        if is_ours and {change.region for change in last} == set(keys):
            own.undo()
            return keys
        same = [key for key in keys if key in own.decisions and own.decisions[key].label == word]
        if same:
            own.clear(*same)
        return same


def _review(project: OpenProject, name: str, bundle: Bundle) -> Review:
    info, file = bundle.results.info, project.path(name)
    return Review(image_of(bundle), identities_of(bundle), info, file=file)


def _suggestion(region: RegionResult) -> Suggestion:
    ranking: Any = region.ranking
    return Suggestion(
        label=ranking.labels[0],
        rank=1,
        similarity=float(ranking.similarities[0]),
        score=float(ranking.probabilities[0]),
    )


def _key(region: RegionResult) -> RegionKey:
    return RegionKey(region.id, region.position)
