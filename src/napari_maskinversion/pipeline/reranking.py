"""Other words for results: their regions are ranked again, and none is inverted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..base.errors import ModelError
from ..language.labels.presets import unknown_to
from ..language.text import embed_vocabulary
from ..learning.classifier_ranking import Ranker
from ..results.results import Results

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..language.labels.vocabulary import Vocabulary
    from ..learning.classifier import Classifier


def rerank(
    model: Backbone,
    results: Results,
    vocabulary: Vocabulary | None,
    unsaved: Classifier | None = None,
) -> Results:
    """Rank the regions of results by other words.

    ``unsaved`` is the classifier that the words name, where no file holds it: then the rankings
    keep what they are without it.
    """
    if vocabulary is None or not len(results):
        return results.ranked(vocabulary, [None] * len(results))
    if model.fingerprint != results.info.fingerprint:
        raise ModelError(
            f"These results are of another model than {model.name}; run again with the new words."
        )
    ranker = Ranker(vocabulary, unsaved)
    ranker.check_space(results.info.settings, results.info.fingerprint)
    ranker.check_measures(results.regions)
    texts = embed_vocabulary(model, vocabulary)
    unknown = unknown_to(model, vocabulary)
    rankings = ranker.rank(model, results.embeddings, texts, unknown, results.regions)
    if unsaved is not None:
        before = results.without_decisions().regions
        pairs = zip(rankings, before, strict=True)
        rankings = [replace(ranking, before=region.ranking) for ranking, region in pairs]
    return results.ranked(vocabulary, rankings)
