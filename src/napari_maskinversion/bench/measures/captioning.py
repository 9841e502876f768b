"""Judge sentences that are generated from embeddings of regions (the paper's Table 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..datasets.protocol import Sample
from .retrieval import Overlaps, Row, sentences_for_masks

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...language.generation.decoder import SentenceGenerator


@dataclass(slots=True)
class Captioner:
    """A generator of sentences, and a judge of what they say."""

    name: str  # Of the generator and its weights, for records
    make: Callable[[Backbone], SentenceGenerator]  # Loads the generator for a model
    load_judge: Callable[[], Backbone]  # Loads the model whose text tower compares sentences
    _generators: dict[str, SentenceGenerator] = field(default_factory=dict)
    _judge: Backbone | None = None

    @property
    def judge(self) -> Backbone:
        """The judge; it is loaded when it is first needed."""
        if self._judge is None:
            self._judge = self.load_judge()
        return self._judge

    def open(self, model: Backbone) -> None:
        """Load generator and judge now, to refuse bad files before anything is measured."""
        self._generator(model)
        _ = self.judge

    def _generator(self, model: Backbone) -> SentenceGenerator:
        if model.name not in self._generators:
            self._generators[model.name] = self.make(model)
        return self._generators[model.name]

    def read(
        self, model: Backbone, embeddings: NDArray[np.float32], sample: Sample
    ) -> dict[str, Any]:
        """Write a sentence for each region and compare it with the sentences of the image."""
        written = self._generator(model).generate(embeddings)
        rows: list[Row] = []
        if sample.expressions:
            told = self.judge.encode_text([text for text, _ in sample.expressions])
            heard = self.judge.encode_text(written)
            scores = (torch.from_numpy(told) @ torch.from_numpy(heard).T).numpy()
            rows = sentences_for_masks(sample, scores, Overlaps(sample))
        return {"captions": written, "caption": rows}
