"""What keys and buttons of the review do, without a window."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from napari_maskinversion.app.review.learning import learn
from napari_maskinversion.app.review.review_options import ReviewOptions
from napari_maskinversion.app.review.review_state import ReviewState
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import ImageIdentity, RegionIdentity, RegionKey
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.results.results import Results
from napari_maskinversion.review.queue import ReviewQueue
from napari_maskinversion.review.review import Review

from ..._napari.made import made_info, made_region

CELLS = ("red", "white", "platelet")


def ranking(words, best, confidence, threshold=None):
    order = [best, *(word for word in words if word != best)]
    rest = (1 - confidence) / max(len(order) - 1, 1)
    similarities = np.linspace(0.5, 0.1, len(order), dtype=np.float32)
    chances = np.array([confidence, *[rest] * (len(order) - 1)], np.float32)
    return Ranking(tuple(order), similarities, chances, threshold=threshold)


@pytest.fixture
def make(tmp_path):
    """Open a review of regions 1, 2, ... with these suggestions and confidences."""
    opened = []

    def make_state(suggested, words=CELLS):
        while opened:
            opened.pop().close()
        rows = [
            made_region(
                number,
                raw_embedding=np.eye(4, dtype=np.float32)[number % 4],
                # Nothing reaches this threshold: none of these.
                ranking=ranking(words, best or words[0], confidence, None if best else 0.9),
            )
            for number, (best, confidence) in enumerate(suggested, 1)
        ]
        info = made_info(Vocabulary(words), embed_dim=4)
        results = Results(info, tuple(rows))
        image = ImageIdentity("cells", (8, 8), "uint8", f"{len(words):032}")
        regions = [RegionIdentity(RegionKey(r.id), f"{r.id:032}", r.bbox) for r in rows]
        review = Review(image, regions, info, file=tmp_path / f"{len(words)}.png")
        opened.append(review)
        queue = ReviewQueue.from_results(results)
        state = ReviewState(results, review, queue)
        state.row = 0
        return state

    yield make_state
    for review in opened:
        review.close()


def accepted(state):
    return {key.id: label for key, label in state.review.decisions.accepted().items()}


def test_accept_takes_all_selected_rows_in_one_step_and_says_how_many(make):
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9), ("platelet", 0.9), ("red", 0.9)])
    step = state.accept(None, 0.0, [0, 1, 2, 4])
    assert accepted(state) == {1: "red", 2: "white", 3: "red", 5: "red"}  # each its own
    assert state.decision_text(step) == "4 regions are accepted. U takes all of them back."
    step = state.undo()
    assert accepted(state) == {}
    assert state.decision_text(step) == "4 regions are undecided again."
    assert state.decision_text(state.redo()).startswith("4 regions are accepted.")


def test_rows_without_a_suggestion_are_left_out_and_counted(make):
    state = make([("red", 0.9), ("", 0.4), ("red", 0.9)])
    assert state.suggestion(1) == NONE_OF_THESE
    step = state.accept(None, 0.0, [0, 1, 2])
    assert accepted(state) == {1: "red", 3: "red"}
    assert "2 regions are accepted as red. 1 has no suggestion" in state.decision_text(step)
    state.row = 1
    with pytest.raises(InputError, match="None of the selected regions"):
        state.accept_rows([1])


def test_a_digit_gives_all_selected_rows_the_label_it_stands_for(make):
    state = make([("red", 0.9), ("white", 0.9), ("platelet", 0.9)])
    label = state.choices[1].label
    state.accept(2, 0.0, [0, 1, 2])
    assert accepted(state) == {1: label, 2: label, 3: label}
    step = state.dismiss("rejected", 0.0, [1, 2])
    assert state.decision_text(step) == "2 regions are rejected. U takes all of them back."
    assert accepted(state) == {1: label}


def test_one_word_is_accepted_wherever_it_is_suggested_with_enough_confidence(make):
    state = make([("red", 0.95), ("red", 0.85), ("white", 0.99), ("red", 0.9), ("red", 0.99)])
    state.row = 4
    state.dismiss("rejected", 0.0)
    state.row = 0
    assert state.above("red", 0.9) == [0, 3]  # the last one is decided
    assert state.above("red", 0.0) == [0, 1, 3]
    state.accept_rows(state.above("red", 0.9))
    assert accepted(state) == {1: "red", 4: "red"}
    state.undo()
    assert accepted(state) == {}


def test_keys_by_word_stand_for_the_same_word_at_every_region(make):
    words = tuple(f"word {k}" for k in range(1, 12))
    state = make([("word 3", 0.9), ("word 11", 0.9)], words)
    state.by_word = True
    for row in (0, 1):
        state.row = row
        keyed = [(one.key, one.label) for one in state.choices if one.key]
        assert keyed == [(str(k), f"word {k}") for k in range(1, 10)]
        colors = state.colors()
        assert [one.color for one in state.choices] == [colors[one.label] for one in state.choices]
    last = state.choices[-1]
    assert (last.key, last.label, last.best) == ("", "word 11", True)  # A accepts it
    state.accept(2, 0.0)
    assert accepted(state) == {2: "word 2"}
    state.row = 0
    assert [one.label for one in state.choices if one.best] == ["word 3"]
    short = make([("red", 0.9)])
    short.by_word = True
    with pytest.raises(InputError, match="no word 4: the list has 3"):
        short.accept(4, 0.0)


def test_the_automatic_order_is_the_most_different_first_only_while_a_review_learns():
    assert ReviewOptions().sorting == "margin"
    assert ReviewOptions(learn=True).sorting == "different"
    assert ReviewOptions(learn=True, order="largest").sorting == "largest"


class Model(SimpleNamespace):
    """A model to which all words are the same."""

    name, logit_scale, embed_dim, device, spec = "demo", 10.0, 4, "cpu", None

    def encode_text(self, texts):
        return np.full((len(texts), 4), 0.5, np.float32)


def taught(state, labels, more_words=False, image="other", plane=()):
    """What a review learns from regions of another image, or plane, that look like these rows."""
    rows = state.results.embeddings
    known = {(image, RegionKey(row + 1, plane)): (rows[row], one) for row, one in labels.items()}
    model = Model(fingerprint=state.results.info.fingerprint)
    return learn(lambda: model, state.results, state.taught, "here", known, more_words)


def suggestions(results):
    return [region.suggestion for region in results.regions]


def test_learning_offers_words_of_the_present_list_unless_asked(make):
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9)])

    def offered(more_words):
        learned = taught(state, {0: "nucleus", 1: "white", 2: "red"}, more_words)
        state.replace_results(learned, 0.0)
        return {one.label for row in range(3) for one in state.top(row)}

    assert offered(False) == set(CELLS)
    assert "nucleus" in offered(True)


def test_one_word_teaches_nothing_yet(make):
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9)])
    assert taught(state, {0: "white", 1: "white"}) is None
    twins = make(
        [("red", 0.9), ("white", 0.9), *[("red", 0.9)] * 3]
    )  # the last looks like the first
    assert taught(twins, {0: "red", 4: "white", 1: "white"}) is None
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9)])
    state.row = 1
    state.accept(1, 0.0)
    assert suggestions(taught(state, {0: "red"}))[:2] == ["red", "white"]


def test_one_word_and_a_rejection_teach_what_is_none_of_these_and_keys_still_take_words(make):
    state = make([("red", 0.9)] * 8)  # the last four look like the first four
    state.accept(1, 0.0)
    state.row = 1
    state.dismiss("rejected", 0.0)
    learned = taught(state, {})
    assert suggestions(learned)[4:6] == ["red", NONE_OF_THESE]
    assert learned.regions[5].ranking.changed_from == "red"
    state.replace_results(learned, 0.0)
    state.row = 5
    assert [one.label for one in state.choices if one.label not in CELLS] == []
    with pytest.raises(InputError, match="R rejects it, 1 takes the word"):
        state.accept(None, 10.0)
    state.accept(1, 10.0)
    assert state.accepted_rows()[5] in CELLS


def test_other_planes_of_the_same_stack_teach_and_its_own_regions_only_by_the_review(make):
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9)])
    labels = {0: "white", 1: "red"}
    other_plane = taught(state, labels, image="here", plane=(("z", 1),))
    assert suggestions(other_plane)[:2] == ["white", "red"]
    assert taught(state, labels, image="here") is None


def test_what_waits_is_what_would_be_accepted_learned_or_by_text(make):
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9)])
    state.row = 2
    state.dismiss("rejected", 0.0)
    assert [word for word, _ in state.waiting] == ["red", "white"]
    state.replace_results(taught(state, {0: "white", 1: "white"}), 0.0)
    assert state.suggestion(0) == "white"
    assert [word for word, _ in state.waiting] == ["white", "white"]
    assert state.above("white", 0.0) == [0, 1]


def test_after_a_change_of_words_no_word_of_the_old_list_is_suggested(make):
    state = make([("red", 0.9), ("white", 0.9), ("red", 0.9)])
    state.replace_results(taught(state, {0: "red", 1: "white"}), 0.0)
    words = ("apple", "car")
    state.replace_results(
        Results(
            replace(state.results.info, vocabulary=Vocabulary(words)),
            tuple(
                replace(region, ranking=ranking(words, "car", 0.8))
                for region in state.results.regions
            ),
        ),
        0.0,
    )
    assert [state.suggestion(row) for row in range(3)] == ["car"] * 3
    learned = taught(state, {0: "apple", 1: "car", 2: "white"})
    assert set(suggestions(learned)) <= {*words}
    state.accept(None, 10.0)
    assert accepted(state) == {1: "car"}
