"""Learning from decisions: a classifier, and suggestions by it.

No Qt, no napari. `learn` and `train` belong in a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.identity import RegionKey
from ...base.wording import counted
from ...language.labels.label import Label
from ...language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ...learning.classifier import Classifier
from ...learning.evidence import doubt_text
from ...learning.features import UNKNOWN, HasMeasures, measured
from ...results.results import Results
from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, places
from .region_place import RegionPlace
from .suggestions import Suggestions, text_best

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from .decided_elsewhere import Elsewhere, Taught

_NAMED: Final = 5
Example = tuple[npt.NDArray[np.float32], "str | None", ExemplarKey, HasMeasures]


def learn(
    load: Callable[[], Backbone],
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    known: Mapping[ExemplarKey, LabelledEmbedding],
    more_words: bool = False,
) -> Suggestions | None:
    """Rank all rows as decided ones teach, and regions elsewhere; None if they cannot yet.

    Rejected rows have None. Of regions elsewhere, words of the list or of this image count, or
    with ``more_words`` all.
    """
    own = places(results, image)
    others: Taught = {place: (*one, UNKNOWN) for place, one in known.items() if place not in own}
    words, examples = _examples(results, decided, image, others, more_words)
    if len({label for _, label, _, _ in examples}) < 2:
        return None
    begun = _begun(load, results, words, results.info.vocabulary)
    features = begun.features_of([region for *_, region in examples])
    try:
        more = {"features": features, "names": begun.features, "validate": False}
        classifier = _fitted(begun, examples, **more)
    except InputError:  # of one class, once contradictions are left out
        return None
    # Keys accept the words of a ranking; "none of these" is what a region is suggested to be.
    none = (NONE_OF_THESE,) * (NONE_OF_THESE in classifier.classes)
    rankings, among_all = (
        classifier.rank(results.embeddings, classes, (), results.regions)
        for classes in (words.labels, words.labels + none)
    )
    best, changed = [], []
    for row, (every, region) in enumerate(zip(among_all, results.regions, strict=True)):
        first = every.labels[0]
        # "None of these" by the threshold stays unless decisions change the word.
        kept = first == text_best(region) or first == region.suggestion
        best.append(region.suggestion if kept else first)
        if not kept:
            changed.append(row)
    return Suggestions(results, rankings, best, True, frozenset(changed))


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A classifier of the decisions at hand."""

    classifier: Classifier
    image: str  # Its pixels' hash
    doubtful: list[RegionKey]  # Decided regions of the results that look wrong, the worst first
    places: list[RegionPlace]  # All that look wrong in the project or, without one, the library

    @property
    def summary(self) -> str:
        """What was learned, and how well."""
        also = " and measures" * bool(self.classifier.features)
        return f"{sum(self.classifier.counts.values())} decisions{also}. {self.classifier.summary}"


def train(
    load: Callable[[], Backbone],
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    elsewhere: Elsewhere,
    measures: bool = False,
) -> Trained:
    """Learn from decisions: rows with their label, None for rejected ones, and other images.

    Of other images, words of the list or of this image count; with ``measures``, regions that were
    measured, and what was.
    """
    others, notes = elsewhere.taught(results, image), elsewhere.notes
    words, examples = _examples(results, decided, image, others)
    begun, known = _begun(load, results, words), {None, NONE_OF_THESE, *words.words}
    if strange := Counter(label for _, label, _ in others.values() if label not in known):
        named = ", ".join(repr(label) for label, _ in strange.most_common(_NAMED))
        notes.append(
            f"Left out {counted(strange.total(), 'decision')} about other images with words that "
            f"are not in the list: {named}{', ...' * (len(strange) > _NAMED)}"
        )
    kinds = ("shape", "intensity") if measures else ()
    names, kept, features, left_out = measured(kinds, [region for *_, region in examples])
    examples = [examples[row] for row in kept]
    classifier = _fitted(begun, examples, features=features, names=names)
    here = np.count_nonzero(kept < len(decided))  # they come first
    notes += [*left_out, *classifier.notes]
    own, wrong = list[RegionKey](), list[RegionPlace]()
    doubts: list[str] = []
    for row, looks_like in classifier.doubtful([label for _, label, _, _ in examples]):
        _, label, (content, key), _ = examples[row]
        where = "region" if content == image else elsewhere.names.get(content, "an earlier image")
        if row < here:
            own.append(key)
        if (file := elsewhere.files.get(content)) is not None:
            wrong.append(RegionPlace.of(file, key))
        doubts.append(doubt_text(f"{where} {key}", label, looks_like))
    told = replace(classifier, notes=tuple(notes), doubts=tuple(doubts))
    return Trained(told, image, own, wrong)


def _examples(
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    others: Taught,
    more_words: bool = False,
) -> tuple[Vocabulary, list[Example]]:
    """Return words, and decided rows and other regions: embedding, label, image, measures."""
    if (vocabulary := results.info.vocabulary) is None:
        raise InputError("These results have no words; run again with some first.")
    listed = [one for one in vocabulary.full_labels if one.name != NONE_OF_THESE]
    taught = [*decided.values(), *(label for _, label, _ in others.values() if more_words)]
    typed = {*taught} - {None, NONE_OF_THESE, *vocabulary.words}
    words = Vocabulary.of([*listed, *map(Label, sorted(map(str, typed)))], vocabulary.templates)
    known, rows = {None, NONE_OF_THESE, *words.words}, results.regions
    examples: list[Example] = [
        (results.embeddings[row], label, (image, rows[row].key), rows[row])
        for row, label in decided.items()
    ]
    for place, (vector, label, region) in others.items():
        if label in known:
            examples.append((vector, label, place, region))
    return words, examples


def _begun(
    load: Callable[[], Backbone],
    results: Results,
    words: Vocabulary,
    ranked_by: Vocabulary | None = None,
) -> Classifier:
    """Return what these words begin as: the classifier that ranked them, if one did."""
    from ...language.text import embed_vocabulary
    from ...learning.ranking import classifier_of
    from ...results.spaces import Space

    model = load()
    if model.fingerprint != results.info.fingerprint:
        raise InputError("These suggestions are of another model; run again first.")
    texts, about = embed_vocabulary(model, words), Space.of(results).about
    if ranked_by is not None and ranked_by.learned is not None:
        return classifier_of(replace(words, learned=ranked_by.learned), texts)
    return Classifier.of_words(words, texts, model.logit_scale, about)


def _fitted(begun: Classifier, examples: Sequence[Example], **more: Any) -> Classifier:
    vectors = np.array([one[0] for one in examples]).reshape(-1, begun.texts.shape[1])
    return begun.fit(vectors, [one[1] for one in examples], [one[2][0] for one in examples], **more)
