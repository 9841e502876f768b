"""Other words for the results of a run, on the bundled model."""

from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ModelError
from napari_maskinversion.language.labels.vocabulary import Vocabulary
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


def test_results_of_another_model_are_refused(results):
    foreign = Results(replace(results.info, fingerprint="0" * 16), results.regions)
    with pytest.raises(ModelError, match="another model"):
        rerank(demo_model(), foreign, OTHERS)
