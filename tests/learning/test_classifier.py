"""A classifier begins as the words, and learns from decisions."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.language.ranking.ranking import rank
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.evidence import doubtful
from napari_maskinversion.learning.fitting import folds, interval, minimise, prior_of

WORDS = ("red cell", "white cell", "platelet")


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def begun(words=WORDS, seed=0, width=16):
    texts = unit(np.random.default_rng(seed).normal(size=(len(words), width)))
    return Classifier.of_words(words, texts, 10.0)


def decided(each=30, seed=1, images=6, spread=0.5, width=16):
    """Regions of three kinds that the words know nothing of: embeddings, labels, images."""
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(99).normal(size=(len(WORDS), width))
    which = np.arange(each * len(WORDS)) % len(WORDS)
    rows = unit(kinds[which] + 2 + spread * rng.normal(size=(len(which), width)))
    return (
        rows,
        [WORDS[one] for one in which],
        [f"{n}.tif" for n in rng.integers(0, images, len(rows))],
    )


def best(classifier, rows):
    return [classifier.classes[one] for one in classifier.probabilities(rows).argmax(1)]


def right(classifier, rows, labels):
    return np.mean(
        [one == other for one, other in zip(best(classifier, rows), labels, strict=True)]
    )


def test_without_decisions_probabilities_are_those_of_the_words_synonyms_too():
    rng = np.random.default_rng(0)
    rows, texts = unit(rng.normal(size=(9, 8))), unit(rng.normal(size=(4, 8)))
    words = Vocabulary(WORDS, synonyms=(("erythrocyte",), (), ()))
    classifier = Classifier.of_words(words, texts, 30.0).fit(rows[:0], [], [])
    chances = classifier.probabilities(rows)
    for row, ranking in enumerate(rank(rows, texts, WORDS, 30.0, owners=words.owners)):
        order = [WORDS.index(label) for label in ranking.labels]
        assert list(np.argsort(-chances[row])) == order
        np.testing.assert_allclose(chances[row, order], ranking.probabilities, atol=1e-6)


def test_decisions_teach_what_words_do_not_know_also_on_other_images():
    rows, labels, images = decided()
    others, truth, _ = decided(seed=2)
    classifier = begun().fit(rows, labels, images)
    assert right(begun(), others, truth) < 0.7 < 0.95 < right(classifier, others, truth)
    scores = classifier.scores
    assert scores.over == "images"
    assert scores.words < 0.7
    assert scores.all.low < scores.all.accuracy <= scores.all.high <= 1
    assert {name: one.regions for name, one in scores.classes.items()} == dict.fromkeys(WORDS, 30)
    assert classifier.counts == dict.fromkeys(WORDS, 30)


def test_few_decisions_lead_away_from_words_only_where_the_words_are_no_better_than_chance():
    rows, labels, images = decided(each=1)
    good = Classifier.of_words(WORDS, rows, 10.0).fit(rows, labels, images)
    assert good.strength < 1  # each word is its region
    bad = Classifier.of_words(WORDS, rows[[1, 2, 0]], 10.0).fit(rows, labels, images)
    assert bad.strength > 1
    lengths = [np.linalg.norm(one.texts[0]) for one in (bad, good)]
    assert lengths[0] < 0.9 < lengths[1] == pytest.approx(1)  # words that were wrong count less
    assert best(bad, rows) == labels


def test_a_word_that_is_right_is_still_suggested_while_only_others_are_decided():
    rng, texts = np.random.default_rng(0), unit(np.random.default_rng(99).normal(size=(3, 16)))
    which = np.arange(90) % 3
    rows = unit(texts[which] + 0.2 * rng.normal(size=(90, 16)))
    labels = [WORDS[one] for one in which]
    words = Classifier.of_words(WORDS, texts, 10.0)
    assert right(words, rows, labels) == 1
    few = [row for row in range(9) if which[row] < 2]  # nothing of the third one
    learned = words.fit(rows[few], [labels[row] for row in few], few, validate=False)
    assert right(learned, rows[9:], labels[9:]) > 0.9


def test_the_more_decisions_name_other_words_the_less_likely_is_one_that_none_ever_named():
    rng, texts = np.random.default_rng(0), unit(np.random.default_rng(99).normal(size=(12, 32)))
    names = [f"word {place}" for place in range(12)]
    which = rng.integers(0, 4, 500)  # eight of the words are never right
    rows = unit(texts[which] + 0.5 * rng.normal(size=(500, 32)))
    labels = [names[one] for one in which]

    def unused(classifier):
        return np.mean([one not in names[:4] for one in best(classifier, rows[300:])])

    words = Classifier.of_words(names, texts, 10.0)
    few = words.fit(rows[:8], labels[:8], range(8), validate=False)
    many = words.fit(rows[:300], labels[:300], range(300), validate=False)
    assert unused(words) > 0.2
    assert 0.05 < unused(few) < 0.2
    assert unused(many) < 0.02
    # What earlier decisions have taught stays, whatever later ones are about.
    two = [row for row in range(300) if which[row] < 2]
    more = many.fit(rows[two], [labels[row] for row in two], two, validate=False)
    third = [row for row in range(300, 500) if which[row] > 1]
    true = [labels[row] for row in third]
    assert right(more, rows[third], true) > right(many, rows[third], true) - 0.1


def test_surer_words_that_are_right_are_softened_as_far_and_leave_as_much_to_decisions():
    targets = np.arange(30) % 3
    for scale in (10.0, 40.0):
        logits = scale * np.eye(3)[targets]
        prior = prior_of(logits, targets)
        soft = logits / (prior.sure * prior.softer)
        right = np.exp(soft[range(30), targets]) / np.exp(soft).sum(1)
        assert -np.log(right).mean() == pytest.approx(0.8 * np.log(3), rel=1e-3)
    assert prior_of(np.zeros((30, 3)), targets).softer == 1
    assert prior_of(np.zeros((30, 3)), targets).strength > 10 * prior.strength


def test_a_classifier_that_learns_goes_on_from_what_it_knows():
    rows, labels, images = decided()
    first = begun().fit(rows, labels, images)
    few = [labels.index(word) for word in WORDS[:2]]  # nothing of the third one
    more = [rows[few], [labels[row] for row in few], [images[row] for row in few]]
    new, truth, _ = decided(seed=2)

    def right(classifier):
        return np.mean(np.array(best(classifier, new)) == truth)

    assert right(begun().fit(*more, validate=False)) < 0.8
    assert right(first.fit(*more, validate=False)) > 0.9
    assert first.fit(*more, validate=False).counts[WORDS[2]] == first.counts[WORDS[2]]


def test_a_synonym_that_was_accepted_counts_for_its_word():
    rows, labels, images = decided()
    words = Vocabulary(WORDS, synonyms=(("erythrocyte",), (), ()))
    texts = unit(np.random.default_rng(0).normal(size=(4, 16)))
    typed = ["erythrocyte" if label == "red cell" else label for label in labels]
    classifier = Classifier.of_words(words, texts, 10.0).fit(rows, typed, images)
    assert classifier.counts == dict.fromkeys(WORDS, 30)
    assert right(classifier, rows, labels) > 0.95
    assert classifier.doubtful(typed) == []


def test_the_learned_part_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rows, labels, _ = decided(each=20)
    targets = np.array([WORDS.index(label) for label in labels])
    inputs = (rows - rows.mean(0)).astype(np.float64)
    weights = np.ones(len(rows))
    ours = minimise(inputs, np.zeros((60, 3)), targets, weights, 5.0, np.zeros((3, 17)), [0, 1, 2])
    theirs = LogisticRegression(C=5.0, tol=1e-8, max_iter=1000).fit(inputs, targets)
    np.testing.assert_allclose(
        inputs @ ours[:, :-1].T + ours[:, -1] - (inputs @ ours[:, :-1].T + ours[:, -1])[:, :1],
        theirs.decision_function(inputs) - theirs.decision_function(inputs)[:, :1],
        atol=1e-2,
    )


def test_rejected_regions_become_none_of_these():
    rows, labels, images = decided()
    odd = unit(np.random.default_rng(5).normal(size=(20, 16)) - 4)
    taught = [*labels, *[None] * 20]
    classifier = begun().fit(np.vstack([rows, odd]), taught, [*images, *images[:20]])
    assert classifier.classes == (*WORDS, NONE_OF_THESE)
    assert right(classifier, odd, [NONE_OF_THESE] * 20) > 0.9
    assert right(classifier, rows, labels) > 0.9
    assert classifier.scores.classes[NONE_OF_THESE].accuracy > 0.8


def test_probabilities_are_calibrated_where_embeddings_tell_little():
    rows, labels, images = decided(each=150, spread=2.5)
    others, truth, _ = decided(each=150, spread=2.5, seed=8)
    chances = begun().fit(rows, labels, images).probabilities(others)
    correct = right(begun().fit(rows, labels, images), others, truth)
    assert abs(chances.max(1).mean() - correct) < 0.07
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-5)


def test_images_are_held_out_whole():
    fold = folds(np.array([0, 0, 0, 1, 1, 2, 2, 3, 4]), 3)
    assert [len(set(fold[[0, 1, 2]])), len(set(fold[[3, 4]])), len(set(fold[[5, 6]]))] == [1, 1, 1]
    assert sorted(np.bincount(fold)) == [3, 3, 3]


def test_what_is_learned_by_heart_from_an_image_does_not_count():
    """Regions of an image are alike, and its label is chance: only held-out images tell."""
    rng = np.random.default_rng(3)
    image = np.repeat(np.arange(20), 10)
    rows = unit(rng.normal(size=(20, 16))[image] + 0.05 * rng.normal(size=(200, 16)))
    labels = [WORDS[one % 2] for one in image]
    scores = begun().fit(rows, labels, image).scores
    assert scores.over == "images"
    assert scores.all.accuracy < 0.8
    alone = begun().fit(rows, labels, ["one.tif"] * 200)
    assert alone.scores.over == "regions"
    assert alone.scores.all.accuracy > 0.9
    assert "one image" in alone.notes[-1]


def test_an_interval_is_wider_where_regions_of_an_image_are_right_together():
    correct = np.repeat([True, True, True, True, False], 20)
    alone = interval(correct, np.arange(100))
    together = interval(correct, np.repeat(np.arange(5), 20))
    assert together[0] < alone[0] < 0.8 < alone[1] < together[1]
    assert interval(np.ones(10, bool), np.arange(10))[0] == pytest.approx(0.722, abs=0.001)


def test_words_can_be_added_later():
    rows, labels, images = decided()
    words = Classifier.of_words(WORDS, rows[:3], 10.0)
    classifier = words.fit(rows, [*labels[:-3], *[None] * 3], images)
    text = unit(np.random.default_rng(7).normal(size=(1, 16)))
    more = classifier.with_words(["parasite"], text)
    assert more.classes == (*WORDS, "parasite", NONE_OF_THESE)
    assert best(more, text) == ["parasite"]
    assert right(more, rows, labels) > 0.9
    with pytest.raises(InputError, match="twice"):
        more.with_words(["parasite"], text)


def test_one_class_is_refused():
    rows, _, images = decided(each=2)
    with pytest.raises(InputError, match="All 6 decisions are 'platelet': there is"):
        begun().fit(rows, ["platelet"] * 6, images)


def test_an_unknown_word_is_refused():
    rows, labels, images = decided(each=2)
    with pytest.raises(InputError, match="'parasite' was decided, but is not among the words"):
        begun().fit(rows, [*labels[:-1], "parasite"], images)


def test_contradictions_and_what_is_not_finite_are_left_out_and_named():
    rows, labels, images = decided(each=5)
    rows = np.vstack([rows, rows[:1]])
    rows[7, 2] = np.nan
    classifier = begun().fit(rows, [*labels, "platelet"], [*images, "other.tif"])
    assert classifier.notes[:2] == (
        "Left out 1 region whose embeddings are not finite (the first one: number 8); run the "
        "images again.",
        "Left out 2 decisions that contradict one another: the same region is 'platelet' and "
        "'red cell'.",
    )
    assert sum(classifier.counts.values()) == 13
    assert np.isnan(classifier.held_out[[0, 7, 15]]).all()


def test_a_class_all_of_whose_decisions_are_left_out_is_none_and_no_doubt():
    rows, labels, images = decided(each=5)
    rows = np.vstack([rows, rows[:1]])
    labels = [*labels, None]
    classifier = begun().fit(rows, labels, [*images, "other.tif"])
    assert classifier.classes == WORDS
    assert not {15} & {row for row, _ in classifier.doubtful(labels)}


def test_a_class_of_one_region_is_learned_and_its_accuracy_unknown():
    rows, labels, images = decided(each=10)
    keep = [row for row, label in enumerate(labels) if label != "platelet"]
    keep.append(labels.index("platelet"))
    classifier = begun().fit(
        rows[keep], [labels[row] for row in keep], [images[row] for row in keep]
    )
    assert best(classifier, rows[keep[-1:]]) == ["platelet"]
    assert "platelet" not in classifier.scores.classes
    assert classifier.notes == (
        "One decision only, so nothing is known about its accuracy: 'platelet'",
    )


def test_features_beside_embeddings_tell_what_embeddings_do_not():
    rows, _, images = decided(each=40)
    large = np.arange(len(rows)) % 2
    sizes = (100.0 + 5000 * large + np.random.default_rng(0).normal(0, 300, len(rows)))[:, None]
    labels = [WORDS[one] for one in large]
    classifier = begun().fit(rows, labels, images, features=sizes)
    assert classifier.scores.all.accuracy > 0.95
    with pytest.raises(InputError, match="takes 17 numbers a region; got 16"):
        classifier.probabilities(rows)


def flipped(seed=0):
    """Decisions, 5 % of which are wrong: embeddings, labels, images, the wrong rows."""
    rows, labels, images = decided(each=100, spread=0.8)
    rng = np.random.default_rng(seed)
    wrong = rng.choice(len(labels), len(labels) // 20, replace=False)
    for row in wrong:
        labels[row] = rng.choice([name for name in WORDS if name != labels[row]])
    return rows, labels, images, wrong


def test_decisions_that_held_out_regions_contradict_are_listed():
    rows, labels, images, wrong = flipped()
    doubts = begun().fit(rows, labels, images).doubtful(labels)
    listed = {row for row, _ in doubts}
    assert len(listed & {*wrong}) >= 0.7 * len(wrong)
    assert len(listed - {*wrong}) <= 0.3 * len(listed)
    truth = decided(each=100, spread=0.8)[1]
    assert np.mean([name == truth[row] for row, name in doubts if row in wrong]) > 0.8


def test_doubtful_decisions_are_those_of_cleanlab():
    from cleanlab.filter import find_label_issues

    rng = np.random.default_rng(4)
    targets = rng.integers(0, 4, 300)
    logits = rng.normal(size=(300, 4)) + 3 * np.eye(4)[np.where(rng.random(300) < 0.1, 0, targets)]
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    theirs = find_label_issues(
        targets, chances, filter_by="prune_by_class", return_indices_ranked_by="normalized_margin"
    )
    ours = doubtful(chances, targets)
    assert len(ours) > 20
    assert len({*ours.tolist()} ^ {*theirs.tolist()}) <= 0.1 * len(theirs)
