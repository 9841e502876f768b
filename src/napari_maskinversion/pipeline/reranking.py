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


def rerank(model: Backbone, results: Results, vocabulary: Vocabulary | None) -> Results:
    """Rank the regions of results by other words."""
    info = replace(results.info, vocabulary=vocabulary)
    if vocabulary is None or not len(results):
        return Results(info, tuple(replace(row, ranking=None) for row in results.regions))
    if model.fingerprint != results.info.fingerprint:
        raise ModelError(
            f"These results are of another model than {model.name}; run again with the new words."
        )
    ranker = Ranker(vocabulary)
    ranker.check_space(info.settings, info.fingerprint)
    ranker.check_measures(results.regions)
    texts = embed_vocabulary(model, vocabulary)
    unknown = unknown_to(model, vocabulary)
    rankings = ranker.rank(model, results.embeddings, texts, unknown, results.regions)
    pairs = zip(results.regions, rankings, strict=True)
    return Results(info, tuple(replace(row, ranking=ranking) for row, ranking in pairs))
