"""Requests to decide about images of a project, as the panel makes them."""

from napari_maskinversion.app.review.decision_book import DecisionBook
from napari_maskinversion.app.review.decision_requests import (
    DecisionRequest,
    TakeBackRequest,
    WordRequest,
)
from napari_maskinversion.batch.project_decisions import ProjectRegions
from napari_maskinversion.batch.project_index import place_in


def in_project(project, names=None, library=None):
    """What tells a request which images it is about: some of a project, or all."""
    names = project.by_name if names is None else names
    places = {name: place_in(project, name) for name in names}
    return {"images": places, "source": ProjectRegions(project.file, library)}


def word_request(project, word, confidence=0.0, names=None):
    """Accept a word in images of a project."""
    return WordRequest(word=word, confidence=confidence, **in_project(project, names))


def region_request(project, regions, status, label="", library=None):
    """Decide about regions of images of a project, by name."""
    about = in_project(project, regions, library)
    return DecisionRequest(regions=regions, status=status, label=label, **about)


def accept(project, word, confidence=0.0, names=None):
    """Accept a word in images of a project; return the outcome."""
    return DecisionBook().apply(word_request(project, word, confidence, names))


def decide(project, regions, status, label="", library=None):
    """Decide about regions of images of a project; return the outcome."""
    return DecisionBook().apply(region_request(project, regions, status, label, library))


def take_back(outcome):
    """Take an outcome back; return what came of that."""
    return DecisionBook().apply(TakeBackRequest(outcome))
