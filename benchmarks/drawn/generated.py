"""``bench captions``: how often a generated sentence names the thing that a region shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_maskinversion.bench.datasets.scene_dataset import Case
from napari_maskinversion.bench.measures.figures_file import Figures, Tell
from napari_maskinversion.bench.measures.statistics import share
from napari_maskinversion.demo_model.domains import KINDS
from napari_maskinversion.demo_model.domains import NAMES as REAL_NAMES
from napari_maskinversion.demo_model.scene_words import TEMPLATES, names_in, names_of, with_article
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.language.generation.decoder import CaptionDecoder

from .cases import ModelUnderTest, draw_windows, kinds_of, pictures, sources_of
from .plans import CaptionsPlan
from .scenes import Part, SceneBench

COLOURS: Final = {
    "red": (200, 40, 40),
    "green": (60, 160, 60),
    "blue": (50, 90, 200),
    "yellow": (230, 200, 60),
    "white": (235, 235, 235),
    "black": (40, 40, 40),
}
OBJECTS: Final = 3  # in a scene
_LATER_SEEDS: Final = 20_000  # scenes that `bench scenes` does not draw
Embeddings = NDArray[np.float32]


class CaptionsBench(SceneBench):
    """``bench captions``."""

    plan: CaptionsPlan
    kind = "captions"

    def __init__(
        self, subject: ModelUnderTest, plan: CaptionsPlan, decoder: CaptionDecoder
    ) -> None:
        self.decoder, self._names = decoder, names_of(subject.names)
        super().__init__(subject, plan)

    def settings(self) -> Figures:
        """Return everything the figures depend on."""
        return {
            **self.subject.about,
            "decoder": self.decoder.name,
            "decoder weights": self.decoder.weights,
            "generation": dict(self.decoder.settings),
            "scenes": self.plan.scenes,
            "objects": OBJECTS,
            "regions per real class": self.plan.per_class,
            "drawings": "bundled" if self.plan.short else "emoji sets",
        }

    def parts(self) -> Iterator[Part]:
        """Yield what the decoder makes of texts, of scenes and of real images."""
        yield "texts", self._texts
        for kind in kinds_of(short=self.plan.short):
            yield f"regions/{kind}", partial(self._drawn, kind)
        if self.plan.folder is not None:
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
        cases = self._scenes.draw(kind, self.plan.scenes, OBJECTS, "test", _LATER_SEEDS)
        labelled = ((case, [self.subject.names[int(i)] for i in case.labels]) for case in cases)
        return self._measure(labelled, self.plan.scenes, tell) | {"kind": kind}

    def _real(self, kind: str, tell: Tell) -> Figures:
        assert self.plan.folder is not None
        cases = list(draw_windows(pictures(self.plan.folder, "test", kind), self.plan.per_class))
        labelled = ((case, [REAL_NAMES[int(i)] for i in case.labels]) for case in cases)
        return self._measure(labelled, len(cases), tell)

    def _measure(self, cases: Iterable[tuple[Case, list[str]]], count: int, tell: Tell) -> Figures:
        inverter = MaskInverter(self.subject.model)
        rows: list[Embeddings] = []
        seen: list[tuple[str, str, str]] = []  # of each region: its name, its image, its colour
        for done, (case, names) in enumerate(cases, 1):
            inverter.set_image(case.image)
            rows.append(inverter.invert(case.masks).raw_embeddings)
            colours = [_colour(case.image[mask]) for mask in case.masks]
            seen += zip(names, sources_of([case]), colours, strict=True)
            tell(done / count)
        truth, sources, shades = map(list, zip(*seen, strict=True))
        embeddings = np.concatenate(rows)
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        best = (unit @ self.subject.texts.T).argmax(1)
        classes = [self.subject.names[int(place)] for place in best]
        sentences = self.decoder.generate(embeddings)
        told = [names_in(sentence, self._names) for sentence in sentences]
        every = list(zip(truth, classes, told, strict=True))
        return {
            "regions": len(truth),
            "class": share([name == nearest for name, nearest, _ in every], sources),
            "named": share([name in said for name, _, said in every], sources),
            "alone": share([[name] == said for name, _, said in every], sources),
            "as_class": share([nearest in said for _, nearest, said in every], sources),
            "colour": self._colours(unit, truth, shades, sources),
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
