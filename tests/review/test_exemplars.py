"""Accepted regions speak for the regions that look like them."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE
from napari_maskinversion.language.ranking.ranking import rank
from napari_maskinversion.results.region_result import RegionResult, WindowRecord
from napari_maskinversion.results.results import Results
from napari_maskinversion.review.decisions import Decision, Decisions
from napari_maskinversion.review.exemplars import Exemplars, Learner
from napari_maskinversion.review.queue import ReviewQueue

from .decided import info, key


def unit(rows):
    array = np.asarray(rows, np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def clusters(each=20, seed=0):
    """Two kinds of regions that text cannot tell apart: (2 * each, 4), unit."""
    rng = np.random.default_rng(seed)
    centres = np.repeat([[3, 1, 0, 1], [3, -1, 0, 1]], each, axis=0)
    return unit(centres + rng.normal(0, 0.2, centres.shape))


def learner(embeddings, labels=("red cell", "white cell"), bias=0.1):
    similarities = np.full((len(embeddings), len(labels)), 0.2, np.float32)
    similarities[:, 0] += bias
    logits = np.exp(10 * similarities)
    shares = logits / logits.sum(1, keepdims=True)
    return Learner(embeddings, similarities, shares, labels, "abc123")


def exemplars(rows, labels, fingerprint="abc123"):
    return Exemplars(rows, tuple(labels), fingerprint)


def test_without_exemplars_or_weight_the_text_speaks_alone():
    model = learner(clusters())
    for scores in (
        model.scores(exemplars(np.zeros((0, 4), np.float32), [])),
        model.scores(exemplars(clusters()[:1], ["white cell"]), weight=0),
    ):
        assert scores.by == "text"
        assert scores.best == ["red cell"] * 40


def test_one_accepted_region_of_each_kind_names_all_that_look_like_it():
    rows = clusters()
    scores = learner(rows).scores(exemplars(rows[[0, 20]], ["white cell", "red cell"]))
    assert scores.best == ["white cell"] * 20 + ["red cell"] * 20
    assert scores.by == "text and exemplars"
    np.testing.assert_allclose(scores.values.sum(1), 1, rtol=1e-5)
    assert scores.values.min() >= 0


def test_the_score_is_the_documented_formula():
    rows, known = clusters(3), clusters(4, seed=1)
    names = ["white cell"] * 4 + ["odd"] * 4
    model = learner(rows)
    scores = model.scores(exemplars(known, names), weight=0.3, nearest=2)
    centre = np.concatenate([rows, known]).mean(0)
    cosine = unit(rows - centre) @ unit(known - centre).T
    for row in range(len(rows)):
        vote = {"red cell": 0.0}
        for name in ("white cell", "odd"):
            near = sorted((c for c, n in zip(cosine[row], names) if n == name), reverse=True)[:2]  # noqa: B905
            vote[name] = np.mean([np.exp(-5.0 * (1 - c)) for c in near])
        total = sum(vote.values()) + 0.1
        text = dict(zip(model.labels, np.exp([3.0, 2.0]) / np.exp([3.0, 2.0]).sum(), strict=True))
        for label, value in zip(scores.labels, scores.values[row], strict=True):
            expected = 0.7 * text.get(label, 0) + 0.3 * (vote[label] + 0.1 / 3) / total
            assert value == pytest.approx(expected, rel=1e-4)


def test_exemplars_that_are_far_away_leave_the_order_to_the_text():
    rng = np.random.default_rng(0)
    rows = unit(
        np.concatenate([np.eye(64)[:1] + 0 * rng.random((20, 64)), rng.normal(size=(20, 64))])
    )
    model = learner(rows, bias=0.3)
    far = unit(-np.eye(64)[:1])
    assert set(model.scores(exemplars(far, ["white cell"])).best) == {"red cell"}


def test_a_typed_label_outside_the_vocabulary_can_be_suggested():
    rows = clusters()
    scores = learner(rows).scores(exemplars(rows[[0, 20]], ["odd thing", "red cell"]))
    assert scores.labels == ("red cell", "white cell", "odd thing")
    first = scores.top(1)
    assert first[0].label == "odd thing"
    assert [s.rank for s in first] == [1, 2, 3]
    assert np.isnan(first[0].similarity)
    assert first[0].score > first[1].score
    assert scores.top(25)[0].similarity == pytest.approx(0.3)


def test_many_exemplars_of_one_label_do_not_outvote_a_near_one_of_another():
    rows = clusters(50)
    known = np.concatenate([rows[:40], rows[50:51]])
    scores = learner(rows).scores(exemplars(known, ["white cell"] * 40 + ["red cell"]), weight=1)
    assert scores.best[51:] == ["red cell"] * 49
    assert scores.by == "exemplars"


def test_certainty_is_that_of_the_new_scores():
    rows = clusters()
    scores = learner(rows).scores(exemplars(rows[[0, 20]], ["white cell", "red cell"]))
    ordered = np.sort(scores.values, axis=1)
    np.testing.assert_allclose(scores.margins, ordered[:, -1] - ordered[:, -2], atol=1e-6)
    assert scores.entropies.shape == (40,)
    alone = learner(rows, labels=("thing",)).scores(exemplars(rows[:1], ["thing"]))
    assert np.isnan(alone.margins).all()


def test_exemplars_of_other_images_count_and_those_of_other_models_are_refused():
    rows = clusters()
    known = np.concatenate([rows[:1], clusters(seed=2)[20:21]])
    both = exemplars(known, ["white cell", "red cell"])
    assert learner(rows).scores(both).best == ["white cell"] * 20 + ["red cell"] * 20
    strange = exemplars(rows[:1], ["red cell"], "other")
    told = (
        r"Another model or method computed these exemplars \(fingerprint other; this run has abc123"
    )
    with pytest.raises(InputError, match=told):
        learner(rows).scores(strange)


def results(rows):
    text = unit([[1, 0.5, 0, 0], [1, 0, 0.5, 0]])
    ranks = rank(rows, text, ["red cell", "white cell"], 10.0)
    window = WindowRecord(
        box=(0, 0, 9, 9), level=0, pixels=(9, 9), input_size=(8, 8), grid=(2, 2), whole=True
    )
    return Results(
        info(),
        tuple(
            RegionResult(
                id=number,
                bbox=(0, 0, 2, 2),
                area=4.0,
                raw_embedding=3 * row,
                grid_map=np.zeros((2, 2), np.float32),
                losses=np.zeros(2, np.float32),
                ranking=ranking,
                iou=0.5,
                low_resolution=False,
                window=window,
                index=number,
            )
            for number, (row, ranking) in enumerate(zip(rows, ranks, strict=True))
        ),
    )


def test_results_and_decisions_are_all_it_takes():
    rows = clusters()
    made, decisions = results(rows), Decisions()
    decisions.decide(Decision(region=key(0), status="accepted", label="odd"))
    decisions.decide(Decision(region=key(20), status="accepted", label="white cell"))
    decisions.decide(Decision(region=key(21), status="rejected"))
    known = Exemplars.accepted(made, decisions)
    assert known.labels == ("odd", "white cell")
    np.testing.assert_allclose(known.embeddings, rows[[0, 20]], atol=1e-6)
    learned = Learner.from_results(made)
    before = learned.scores(known, weight=0)
    for row, region in enumerate(made.regions):
        assert before.top(row, 1)[0].label == region.ranking.labels[0]
        assert before.top(row, 1)[0].similarity == pytest.approx(region.ranking.similarities[0])
        assert before.margins[row] == pytest.approx(
            region.ranking.probabilities[0] - region.ranking.probabilities[1], abs=1e-6
        )
    assert set(learned.scores(known, weight=0.9).best[:20]) == {"odd"}
    assert len(Exemplars.accepted(made, Decisions())) == 0


def test_the_queue_of_results_shows_what_the_table_suggests():
    made = results(clusters())
    queue = ReviewQueue.from_results(made)
    assert [queue.label(row) for row in range(3)] == [r.suggestion for r in made.regions[:3]]
    none = ReviewQueue.from_results(made.with_threshold(1.0))
    assert none.label(0) == NONE_OF_THESE
