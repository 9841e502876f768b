"""``bench captions``: how often a generated sentence names the thing that a region shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...demo_model.domains import KINDS
from ...demo_model.domains import NAMES as REAL_NAMES
from ...demo_model.vocabulary import TEMPLATES, names_in, names_of, with_article
from ...engine.invert.inverter import MaskInverter
from ...language.generation.decoder import CaptionDecoder
from ..datasets.domains import pictures
from ..datasets.scenes import Case, draw_windows, kinds_of, sources_of
from ..model_under_test import ModelUnderTest
from .figures_file import Figures, FiguresFile, Tell
from .scenes import SceneBench
from .statistics import share

SCENES: Final = 60
PER_CLASS: Final = 15
COLOURS: Final = {
    "red": (200, 40, 40),
    "green": (60, 160, 60),
    "blue": (50, 90, 200),
    "yellow": (230, 200, 60),
    "white": (235, 235, 235),
    "black": (40, 40, 40),
}
_LATER_SEEDS: Final = 20_000  # scenes that `bench scenes` does not draw
Embeddings = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionsPlan:
    """What to measure."""

    scenes: int = SCENES  # Scenes of each kind, and things in each
    objects: int = 3
    per_class: int = PER_CLASS  # Largest number of real regions of a class
    sprites: Path | None = None  # Folders of the emoji sets and of the real images
    real: Path | None = None
    short: bool = False  # Only bundled drawings

    def settings(self, subject: ModelUnderTest, decoder: CaptionDecoder) -> Figures:
        """Return everything the figures depend on."""
        return {
            "model": subject.model.name,
            "fingerprint": subject.model.fingerprint,
            "decoder": decoder.name,
            "decoder weights": decoder.weights,
            "generation": dict(decoder.settings),
            "names": len(subject.names),
            "scenes": self.scenes,
            "objects": self.objects,
            "regions per real class": self.per_class,
            "drawings": "bundled" if self.short else "emoji sets",
        }


class CaptionsBench(SceneBench):
    """``bench captions``."""

    plan: CaptionsPlan

    def __init__(
        self,
        subject: ModelUnderTest,
        decoder: CaptionDecoder,
        plan: CaptionsPlan,
        record: FiguresFile,
    ) -> None:
        super().__init__(subject, plan, record)
        self.decoder, self._names = decoder, names_of(subject.names)

    def _parts(self) -> Iterator[tuple[str, Callable[[Tell], Figures]]]:
        yield "texts", self._texts
        for kind in kinds_of(short=self.plan.short):
            yield f"regions/{kind}", partial(self._drawn, kind)
        if self.plan.real is not None:
            for kind in (k for k in KINDS if self.subject.knows(k)):
                yield f"real/{kind}", partial(self._real, kind)

    def _texts(self, tell: Tell) -> Figures:
        """Sentences about one thing in words that were not in the training."""
        pairs = [
            (template.format(word), entry.name)
            for entry in self._names
            for word in (entry.name, *entry.synonyms)
            for template in TEMPLATES[4:]
        ]
        embeddings = self.subject.model.encode_text([text for text, _ in pairs])
        tell(0.5)
        sentences = self.decoder.generate(embeddings)
        right = [
            name in names_in(sentence, self._names)
            for sentence, (_, name) in zip(sentences, pairs, strict=True)
        ]
        return {"texts": len(pairs), "named": share(right, [name for _, name in pairs])}

    def _drawn(self, kind: str, tell: Tell) -> Figures:
        plan = self.plan
        cases = self._scenes.draw(kind, plan.scenes, plan.objects, "test", _LATER_SEEDS)
        labelled = ((case, [self.subject.names[int(i)] for i in case.labels]) for case in cases)
        return self._measure(labelled, plan.scenes, tell) | {"kind": kind}

    def _real(self, kind: str, tell: Tell) -> Figures:
        assert self.plan.real is not None
        cases = list(draw_windows(pictures(self.plan.real, "test", kind), self.plan.per_class))
        labelled = ((case, [REAL_NAMES[int(i)] for i in case.labels]) for case in cases)
        return self._measure(labelled, len(cases), tell)

    def _measure(self, cases: Iterable[tuple[Case, list[str]]], count: int, tell: Tell) -> Figures:
        inverter = MaskInverter(self.subject.model)
        rows: list[Embeddings] = []
        truth: list[str] = []
        sources: list[str] = []
        colours: list[str] = []
        for done, (case, names) in enumerate(cases, 1):
            inverter.set_image(case.image)
            rows.append(inverter.invert(case.masks).raw_embeddings)
            truth += names
            sources += sources_of([case])
            colours += [_colour(case.image[mask]) for mask in case.masks]
            tell(done / count)
        embeddings = np.concatenate(rows)
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        best = (unit @ self.subject.texts.T).argmax(1)
        classes = [self.subject.names[int(place)] for place in best]
        sentences = self.decoder.generate(embeddings)
        said = [names_in(sentence, self._names) for sentence in sentences]
        return {
            "regions": len(truth),
            "class": share([a == b for a, b in zip(classes, truth, strict=True)], sources),
            "named": share([a in b for a, b in zip(truth, said, strict=True)], sources),
            "alone": share([[a] == b for a, b in zip(truth, said, strict=True)], sources),
            "as_class": share([a in b for a, b in zip(classes, said, strict=True)], sources),
            "colour": self._colours(unit, truth, colours, sources),
            "examples": [list(pair) for pair in zip(truth, sentences, strict=True)][:6],
        }

    def _colours(
        self, unit: Embeddings, truth: list[str], colours: list[str], sources: list[str]
    ) -> Figures:
        """How often the nearest of six colour words, with the right name, is the region's."""
        words = list(COLOURS)
        right = []
        for embedding, name, colour in zip(unit, truth, colours, strict=True):
            named = with_article(name).removeprefix("a ").removeprefix("an ")
            texts = self.subject.model.encode_text([f"a {word} {named}" for word in words])
            right.append(words[int((texts @ embedding).argmax())] == colour)
        most = Counter(colours).most_common(1)[0][1] / len(colours)
        return {"told": share(right, sources), "most_frequent": most}


def _colour(pixels: NDArray[np.uint8]) -> str:
    """Return the word whose colour is nearest to the mean of pixels (N, 3)."""
    mean = pixels.astype(float).mean(0)
    return min(COLOURS, key=lambda word: float(np.linalg.norm(mean - COLOURS[word])))
