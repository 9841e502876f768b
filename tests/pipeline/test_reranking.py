"""Other words for the results of a run, on the bundled model."""

from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.app.review.learning import learn
from napari_maskinversion.base.errors import InputError, ModelError
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.pipeline.reranking import rerank
from napari_maskinversion.results.results import Results
from tests.scenes import demo_model, picture, regions, run

WORDS, OTHERS = Vocabulary(("apple", "car")), Vocabulary(("fish", "house", "car"))


@pytest.fixture(scope="module")
def results():
    return run(demo_model(), picture(), regions(2), WORDS, InversionConfig(steps=1))


def test_other_words_rank_as_a_run_with_them_does(results):
    after = rerank(demo_model(), results, OTHERS)
    again = run(demo_model(), picture(), regions(2), OTHERS, InversionConfig(steps=1))
    assert after.info.vocabulary == OTHERS
    for one, other in zip(after.regions, again.regions, strict=True):
        assert one.ranking.labels == other.ranking.labels
        np.testing.assert_allclose(one.ranking.similarities, other.ranking.similarities, atol=1e-5)


def test_embeddings_stay_the_same_objects(results):
    after = rerank(demo_model(), results, OTHERS)
    pairs = zip(after.regions, results.regions, strict=True)
    assert all(one.raw_embedding is other.raw_embedding for one, other in pairs)
    bare = rerank(demo_model(), results, None)
    assert [region.ranking for region in bare.regions] == [None, None]


@pytest.fixture(scope="module")
def learned(results):
    """The results as a review ranks them that learned: region 1 is a boat, 2 none of these."""
    decided = {0: "boat", 1: None}
    return learn(demo_model, results, decided, "image", {})


def test_an_unsaved_classifier_ranks_and_the_ranking_before_stays_the_same_object(results, learned):
    assert [region.suggestion for region in learned.regions] == ["boat", NONE_OF_THESE]
    assert learned.info.vocabulary.labels == ("apple", "car", "boat")
    assert learned.info.without_decisions == results.info
    back = learned.without_decisions()
    assert back.info.vocabulary == WORDS
    pairs = zip(back.regions, results.regions, strict=True)
    assert all(one.ranking is other.ranking for one, other in pairs)


def test_nobody_else_ranks_by_a_classifier_that_was_not_saved(results, learned):
    with pytest.raises(InputError, match="in a classifier that was not saved"):
        rerank(demo_model(), results, learned.info.vocabulary)


def test_what_a_review_learned_is_a_fact_of_its_own_and_outdates_no_run(results, learned):
    (difference,) = learned.info.recipe.differences(results.info.recipe)
    assert (difference.part, difference.key) == ("ranking", "decisions")
    assert not difference.needs_run
    assert "unsaved (2 decisions)" in learned.to_frame()["classifier"].tolist()


def test_results_of_another_model_are_refused(results):
    foreign = Results(replace(results.info, fingerprint="0" * 16), results.regions)
    with pytest.raises(ModelError, match="another model"):
        rerank(demo_model(), foreign, OTHERS)
