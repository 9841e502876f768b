"""One request decides about images whose review is open and about others, and is taken back."""

import errno
import os
import stat
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from napari_maskinversion.app.review import decision_book
from napari_maskinversion.app.review.decision_book import IN_REVIEW, DecisionBook, OpenReview
from napari_maskinversion.app.review.decision_requests import DecisionRequest, TakeBackRequest
from napari_maskinversion.app.review.review_state import ReviewState
from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.identity import ImagePlace, RegionKey
from napari_maskinversion.batch import project_decisions
from napari_maskinversion.batch.project import read_project, write_project
from napari_maskinversion.batch.project_index import ProjectIndex, place_in
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.library_decisions import LibraryRegions
from napari_maskinversion.review.decisions import Decision
from napari_maskinversion.review.queue import ReviewQueue
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.batch.test_project_index import COUNT, make_project
from tests.decisions import decide, region_request, take_back, word_request
from tests.library.made import WORDS, bundle

SHOWN, OTHER = "image-1.png", "image-2.png"  # of the project; nothing is decided about them
KEYS = [RegionKey(1), RegionKey(3)]
REGIONS = {SHOWN: KEYS, OTHER: KEYS}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of computed images, which no batch has marked."""
    monkeypatch.setattr(project_decisions.ProjectImages, "_check_fresh", lambda *_: None)
    return make_project(tmp_path / "project")


def review_of(project, name):
    """Open the decisions about an image of the project."""
    made = bundle(seed=int(name[6:-4]))
    return Review(image_of(made), identities_of(made), made.results.info, file=project.path(name))


def open_review(book, project, name, problem=""):
    """Open the review of an image in a window; return its state."""
    results = bundle(seed=int(name[6:-4])).results
    state = ReviewState(results, review_of(project, name), ReviewQueue.from_results(results))
    review = OpenReview(
        state=state,
        place=place_in(project, name),
        why_not=lambda _: problem,
        staleness=lambda: "",
        changed=frozenset,
    )
    book.register(review)
    return state


@pytest.fixture
def window(project):
    """A book of decisions with the open review of the image shown, and what it has told of."""
    book, outcomes = DecisionBook(), []
    book.changed.connect(outcomes.append)
    state = open_review(book, project, SHOWN)
    yield SimpleNamespace(book=book, state=state, outcomes=outcomes)
    state.review.close()


def labels(decisions):
    return {key.id: decision.label for key, decision in decisions.items()}


def on_disk(project, name):
    """Return the decisions about an image, by region."""
    with review_of(project, name) as review:
        return labels(review.decisions)


def test_one_request_decides_about_the_shown_and_another_image_and_is_taken_back(project, window):
    outcome = window.book.apply(region_request(project, REGIONS, "accepted", "dust"))
    assert outcome.counted == "4 regions of 2 images"
    assert not outcome.problems
    assert labels(window.state.review.decisions) == {1: "dust", 3: "dust"}
    assert on_disk(project, OTHER) == {1: "dust", 3: "dust"}
    taken = window.book.take_back(outcome)
    assert taken.count == 4
    assert outcome.rest(taken) is None
    assert not window.state.review.decisions
    assert on_disk(project, OTHER) == {}


def test_a_word_is_accepted_in_the_open_review_and_in_files(project, window):
    outcome = window.book.apply(word_request(project, WORDS[0], 0.5))
    assert set(outcome.steps) == set(project.by_name)
    assert set(labels(window.state.review.decisions).values()) == {WORDS[0]}
    assert on_disk(project, OTHER) == labels(window.state.review.decisions)
    assert outcome.text.startswith(f"Accepted as {WORDS[0]}: {outcome.count} regions of 4 images.")


def test_one_signal_tells_of_the_open_review_at_once_and_of_all_images_at_the_end(project, window):
    task = window.book.start(region_request(project, REGIONS, "rejected"))
    (early,) = window.outcomes
    assert early.request is None
    assert early.step_at(place_in(project, SHOWN)) == task.outcome.steps[SHOWN]
    assert task.pending == [OTHER]
    task.run()
    outcome = window.book.finish(task)
    assert window.outcomes[1:] == [outcome]
    assert outcome.request is task.request
    assert [len(outcome.step_at(place_in(project, name))) for name in (SHOWN, OTHER)] == [2, 2]


def test_what_an_open_review_decides_by_itself_is_told_by_the_same_signal(project, window):
    step = window.state.review.reject(RegionKey(2))
    window.book.tell(window.state, step)
    (outcome,) = window.outcomes
    assert outcome.step_at(place_in(project, SHOWN)) == step


def test_what_cannot_be_decided_in_the_open_review_is_left_out_and_files_go_on(project):
    book = DecisionBook()
    state = open_review(book, project, SHOWN, "The image is hidden; show it, then decide.")
    with state.review:
        outcome = book.apply(region_request(project, REGIONS, "rejected"))
    assert outcome.problems == {SHOWN: "The image is hidden; show it, then decide."}
    assert outcome.text.endswith("such as image-1.png: The image is hidden; show it, then decide.")
    assert set(outcome.steps) == {OTHER}


def test_a_crash_between_two_images_keeps_the_first_which_can_be_taken_back(
    project, window, monkeypatch
):
    class CrashError(BaseException):
        """The end of the program."""

    def crash(*_, **__):
        raise CrashError

    task = window.book.start(region_request(project, REGIONS, "accepted", "dust"))
    with monkeypatch.context() as patch:
        patch.setattr(project_decisions.ProjectImages, "review", crash)
        with pytest.raises(CrashError):
            task.run()
    saved = task.outcome
    window.state.review.close(lose_unsaved=True)
    window.book.release(window.state)
    assert [on_disk(project, name) for name in (SHOWN, OTHER)] == [{1: "dust", 3: "dust"}, {}]
    decide(project, {OTHER: KEYS}, "rejected")  # by the next program
    assert take_back(saved).count == 2
    assert [on_disk(project, name) for name in (SHOWN, OTHER)] == [{}, {1: "", 3: ""}]


class CutError(BaseException):
    """The power is gone."""


@pytest.fixture
def disk(project, monkeypatch):
    """A disk on which only what was synced is left after a power cut, at a step of syncing."""
    ProjectIndex.fresh(project)  # which syncs its vectors
    files = list(project.folder.glob("*.jsonl"))
    sizes = {file.stat().st_ino: file.stat().st_size for file in files}
    state = SimpleNamespace(steps=None, sizes=sizes, names={file.name for file in files})
    real = os.fsync

    def fsync(handle):
        if state.steps == 0:
            raise CutError
        if state.steps is not None:
            state.steps -= 1
        real(handle)
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            state.names |= {file.name for file in project.folder.glob("*.jsonl")}
        else:
            state.sizes[about.st_ino] = about.st_size

    def cut():
        state.steps = None
        for file in project.folder.glob("*.jsonl"):
            if file.name in state.names:
                os.truncate(file, state.sizes.get(file.stat().st_ino, 0))
            else:
                file.unlink()

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(decision_book, "_SAVED_TOGETHER", 2)
    state.cut = cut
    return state


# Two files and their folder are synced, twice.
@pytest.mark.parametrize(
    ("steps", "count"), [(0, 0), (1, 0), (2, 0), (3, 2), (4, 2), (5, 2), (6, COUNT)]
)
def test_what_counts_as_decided_is_on_the_disk_after_a_power_cut(project, disk, steps, count):
    regions = dict.fromkeys(project.by_name, KEYS)
    task = DecisionBook().start(region_request(project, regions, "accepted", "dust"))
    disk.steps = steps
    with suppress(CutError):
        task.run()
    disk.cut()
    confirmed = task.outcome.steps
    assert len(confirmed) == count
    for name in confirmed:
        assert on_disk(project, name).items() >= {1: "dust", 3: "dust"}.items()


def test_what_the_disk_refuses_is_no_decision_and_the_others_count(project, monkeypatch):
    real = os.fsync

    def refused():
        return project.folder.glob(f"{OTHER}*.jsonl")

    def fsync(handle):
        if os.fstat(handle).st_ino in {file.stat().st_ino for file in refused()}:
            raise OSError(errno.EIO, "Input/output error")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        outcome = decide(project, REGIONS, "rejected")
    assert set(outcome.steps) == {SHOWN}
    assert "Input/output error" in outcome.problems[OTHER]
    assert on_disk(project, OTHER) == {}
    assert decide(project, REGIONS, "rejected").counted == "4 regions of 2 images"


def test_cancel_keeps_what_was_decided_and_is_heard_between_two_images(project, monkeypatch):
    seen = []

    def show(news):
        seen.append(news)
        if len(seen) == 2:
            raise Cancelled

    monkeypatch.setattr(decision_book, "show", show)
    task = DecisionBook().start(word_request(project, WORDS[0], 0.5))
    task.run(lambda _: None)
    first, second, *unreached = project.by_name
    assert task.outcome.stopped
    assert list(task.outcome.steps) == [first, second]
    assert set(on_disk(project, second).values()) == {WORDS[0]}
    assert [on_disk(project, name) for name in unreached] == [{}, {}]


def test_what_was_decided_since_in_the_open_review_stays(project, window):
    outcome = window.book.apply(region_request(project, REGIONS, "accepted", "dust"))
    again = Decision(region=KEYS[0], status="accepted", label="own word")
    window.state.review.decide(again)
    window.book.take_back(outcome)
    assert labels(window.state.review.decisions) == {1: "own word"}
    assert on_disk(project, OTHER) == {}


def test_a_review_that_is_opened_while_files_are_decided_about_decides_at_the_end(project):
    book = DecisionBook()
    task = book.start(region_request(project, REGIONS, "accepted", "dust"))
    assert task.pending == [SHOWN, OTHER]
    state = open_review(book, project, OTHER)
    with state.review:
        task.run()
        assert task.outcome.problems == {OTHER: IN_REVIEW}
        outcome = book.finish(task)
        assert not outcome.problems
        assert labels(state.review.decisions) == {1: "dust", 3: "dust"}
    assert outcome.counted == "4 regions of 2 images"


def test_a_review_that_was_closed_since_is_taken_back_in_the_file(project):
    book = DecisionBook()
    state = open_review(book, project, SHOWN)
    outcome = book.apply(region_request(project, REGIONS, "accepted", "dust"))
    state.review.close()
    book.release(state)
    assert book.take_back(outcome).count == 4
    assert [on_disk(project, name) for name in (SHOWN, OTHER)] == [{}, {}]


def test_an_image_that_is_under_review_in_another_window_is_left_out(project, window):
    other_window = DecisionBook()
    outcome = other_window.apply(region_request(project, REGIONS, "rejected"))
    assert outcome.problems == {SHOWN: IN_REVIEW}
    assert not window.state.review.decisions
    window.state.review.close()
    rest = {name: REGIONS[name] for name in outcome.problems}
    assert other_window.apply(region_request(project, rest, "rejected")).count == 2


def test_two_writers_lose_no_decision(project):
    names, confirmed = list(project.by_name)[1:], []

    def write(word):
        book = DecisionBook()
        for _ in range(5):
            regions = dict.fromkeys(names, KEYS)
            confirmed.append(book.apply(region_request(project, regions, "accepted", word)))

    writers = [threading.Thread(target=write, args=(word,)) for word in ("first", "second")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    problems = {why for outcome in confirmed for why in outcome.problems.values()}
    assert problems <= {IN_REVIEW}
    for name in names:
        steps = [outcome.steps[name] for outcome in confirmed if name in outcome.steps]
        with review_of(project, name) as review:
            assert review.decisions.undoable == len(steps)
            assert review.restored.sentences(review.image) == ["2 earlier decisions restored."]


def test_a_region_of_a_library_is_decided_in_the_open_review_of_its_image(
    project, window, tmp_path
):
    library = Library.new(tmp_path / "library")
    for name in REGIONS:
        library.add(bundle(seed=int(name[6:-4])), image=project.path(name))
    rows = library.rows()
    ids = rows["id"][rows["region"].isin([1, 3])].tolist()
    files = {name: place_in(project, name) for name in REGIONS}
    request = DecisionRequest(
        regions={files[name].path: KEYS for name in REGIONS},
        status="accepted",
        label="dust",
        images={place.path: place for place in files.values()},
        source=LibraryRegions(library, ids),
    )
    outcome = window.book.apply(request)
    assert not outcome.problems
    assert labels(window.state.review.decisions) == {1: "dust", 3: "dust"}
    assert on_disk(project, OTHER) == {1: "dust", 3: "dust"}
    assert window.book.take_back(outcome).count == 4


def test_regions_whose_image_is_nowhere_are_not_those_of_an_open_image_without_a_file(project):
    book = DecisionBook()
    state = open_review(book, project, SHOWN)
    nowhere = ImagePlace("")
    book.release(state)
    book.register(
        OpenReview(
            state=state,
            place=nowhere,
            why_not=lambda _: "",
            staleness=lambda: "",
            changed=frozenset,
        )
    )
    elsewhere = DecisionRequest(
        regions={"a library's": KEYS},
        status="skipped",
        images={"a library's": nowhere},
        source=project_decisions.ProjectRegions(project.file),
    )
    task = book.start(elsewhere)
    assert task.pending == ["a library's"]
    assert not state.review.decisions
    in_view = DecisionRequest(regions={"": KEYS}, status="skipped", images={"": nowhere})
    assert book.apply(in_view).count == 2
    state.review.close()


def test_a_request_for_the_image_in_view_alone_needs_its_open_review(project, window):
    about = {"": place_in(project, SHOWN)}
    request = DecisionRequest(regions={"": KEYS}, status="skipped", images=about)
    assert window.book.apply(request).count == 2
    elsewhere = DecisionRequest(
        regions={"": KEYS}, status="skipped", images={"": ImagePlace("elsewhere.png")}
    )
    assert window.book.apply(elsewhere).count == 0
    assert len(window.state.review.decisions) == 2


def test_only_what_was_not_taken_back_is_left_to_be_taken_back(project):
    names = list(project.by_name)[1:COUNT]
    outcome = decide(project, dict.fromkeys(names, KEYS), "rejected")
    with review_of(project, OTHER):
        taken = take_back(outcome)
    assert "1 image could not be changed, such as image-2.png" in taken.text
    rest = outcome.rest(taken)
    assert set(rest.steps) == {OTHER}
    assert set(TakeBackRequest(rest).images) == {OTHER}
    assert take_back(rest).count == 2


def test_an_image_that_the_project_lacks_now_is_told_and_stays_to_be_taken_back(project):
    outcome = decide(project, REGIONS, "rejected")
    file = project.folder / "project.yaml"
    with_both = file.read_bytes()
    images = tuple(image for image in read_project(file).images if image.name != OTHER)
    write_project(read_project(file).model_copy(update={"images": images}), file)
    taken = take_back(outcome)
    assert taken.counted == "2 regions of 1 image"
    assert taken.text.endswith(
        "1 image could not be changed, such as image-2.png: its regions are not stored any more; "
        "compute or add it again, then undo again."
    )
    rest = outcome.rest(taken)
    assert set(rest.steps) == {OTHER}
    file.write_bytes(with_both)
    assert take_back(rest).count == 2
    assert on_disk(project, OTHER) == {}
