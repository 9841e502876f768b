"""What a job may be about: two values are equal if an answer about one is right for the other."""

from __future__ import annotations

from dataclasses import dataclass

from ...results.results import Results
from .records import same_regions
from .session_models import Models


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """Equal for one object; arrays, for example, cannot be compared by ``==``."""

    of: object

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.of is other.of


@dataclass(frozen=True, slots=True, eq=False)
class ShownRegions:
    """Equal for results of the same regions; words, limits and captions may differ."""

    results: Results | None

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShownRegions):
            return False
        return self.results is other.results or same_regions(self.results, other.results)


def image_chosen(session: Models) -> object:
    """Return the chosen image."""
    return session.run.image_ref


def layers_chosen(session: Models) -> object:
    """Return the chosen image and regions."""
    return session.run.image_ref, session.run.regions_ref


def run_shown(session: Models) -> object:
    """Return the run whose results are shown."""
    record = session.run.record
    if record is None:
        return None
    return record.snapshot


def results_shown(session: Models) -> object:
    """Return the results shown, with their words and limits."""
    return Identity(session.run.results)


def regions_shown(session: Models) -> object:
    """Return the regions of the results shown, whatever their words."""
    return ShownRegions(session.run.results)


def region_selected(session: Models) -> object:
    """Return the selected region of the results, whatever its words."""
    results, row = session.run.results, session.review.row
    if results is None or not 0 <= row < len(results):
        return None
    return Identity(results.regions[row].raw_embedding)


def run_at_work(session: Models) -> object:
    """Return whether a run is at work: it takes the processors, and brings other results."""
    return session.run.running


def run_regions(session: Models) -> object:
    """Return the regions of the run whose results are shown, as they were when it began."""
    record = session.run.record
    if record is None:
        return None
    return Identity(record.identities)


def is_live(session: Models) -> object:
    """Return whether live mode is on."""
    return session.run.live


def plane_in_view(session: Models) -> object:
    """Return the plane of the image in view."""
    return session.run.plane


def channels_chosen(session: Models) -> object:
    """Return which channels of the image are used."""
    return session.run.scope.channels


def model_chosen(session: Models) -> object:
    """Return the name of the chosen model."""
    return session.run.settings.model


def review_target(session: Models) -> object:
    """Return what a review can be opened of."""
    return Identity(session.review.target)


def image_opening(session: Models) -> object:
    """Return the name of the project's image that is being opened."""
    state = session.project.state
    if state is None:
        return None
    return state.opening


def project_open(session: Models) -> object:
    """Return the file of the open project; "" without one."""
    state = session.project.state
    if state is None:
        return ""
    return state.file


def library_chosen(session: Models) -> object:
    """Return the chosen library."""
    return Identity(session.explore.library)


def review_open(session: Models) -> object:
    """Return the open review, whatever its suggestions."""
    state = session.review.state
    if state is None:
        return None
    return Identity(state.review)
