"""Decisions about the images of a project, without a window: read, counted, made for many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import InputError, MaskInversionError
from ..base.identity import RegionKey
from ..base.progress import listening
from ..base.wording import one_line
from ..language.labels.vocabulary import NONE_OF_THESE
from ..library.library import Library
from ..results.export.bundle import Bundle
from ..review.decisions import Decision
from ..review.review import Review
from ..review.stored_images import DecidedImage, StoredRegion, Summary, rows_by_content
from .addresses import exists
from .finished import differences, read_finished
from .image_task import ARCHIVES, file_name
from .opened import OpenProject
from .project_index import ProjectIndex, archive_file


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


def _counted_rows(regions: Sequence[StoredRegion], *, suggested: bool) -> Summary:
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


@dataclass(frozen=True, slots=True, eq=False)
class ProjectRegions:
    """The regions of a project; decisions about them are passed on to a library that has them."""

    file: Path
    library: Library | None = None

    def open(self, names: Sequence[str]) -> ProjectImages:
        """Read images of the project and their index as they are now."""
        return ProjectImages(OpenProject.read(self.file), names, self.library)


class ProjectImages:
    """The images of a project, see `StoredImages`."""

    def __init__(
        self, project: OpenProject, names: Sequence[str], library: Library | None = None
    ) -> None:
        self.project = project
        self._library = library
        listed = [name for name in names if name in project.by_name]
        self._index = ProjectIndex.fresh(project, listed)
        self._images = self._index.images(listed)
        self._regions = self._index.regions(self._images.values())

    def regions(self, name: str) -> Sequence[StoredRegion] | None:
        """Return the regions of an image."""
        if problem := self._index.problems.get(name):
            raise InputError(problem)
        return self._regions.get(name)

    def review(self, name: str, *, fresh: bool) -> Review:
        """Open the decisions about an image."""
        if fresh:
            self._check_fresh(name)
        return self._index.review(self._images[name], self._regions[name])

    def _check_fresh(self, name: str) -> None:
        if not exists(file := self.project.path(name)):
            raise InputError(f"its file is not there any more: {file}")
        if reasons := stale_reasons(self.project, name):
            raise InputError(
                f"it was computed from other {', '.join(reasons)}; compute it again first"
            )

    def keep(self, images: Sequence[DecidedImage]) -> Mapping[str, str]:
        """Bring decisions to the index and to the library."""
        self._index.keep(self._images, images)
        for image in images:
            decisions = {change.region: change.after for change in image.step}
            self._regions[image.name] = [
                region.decided(decisions[region.key]) if region.key in decisions else region
                for region in self._regions[image.name]
            ]
        if self._library is not None:
            with suppress(MaskInversionError, OSError):  # the files have them
                self._library.store.update(rows_by_content(images))
        return {}

    def summary(self, name: str) -> Summary | None:
        """Count the regions of an image."""
        return _counted_rows(self._regions[name], suggested=self._images[name].suggested)
