"""Embed fewer sentences at once, then on the CPU, when memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...base.oom_fallback import Attempt, OomFallback, then_on_cpu
from ...base.steps import map_steps
from ..labels.vocabulary import Vocabulary
from .embeddings import SENTENCES, embed_vocabulary_steps

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone


class FittingEncoder:
    """Text encoder that embeds as many sentences at once as fit into memory.

    If not even one fits, a copy of the model on the CPU embeds the rest.
    """

    def __init__(
        self, model: Backbone, sentences: int, what: str, on_note: Callable[[str], None]
    ) -> None:
        self.model, self._on_note = model, on_note
        self.fallback = text_fallback(sentences, str(model.device), what)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed sentences as `Backbone.encode_text` does."""
        batches: list[npt.NDArray[np.float32]] = []
        left = texts
        while left:
            batches.append(self.fallback.run(partial(self._encode_first, left), self.use_less))
            left = left[len(batches[-1]) :]
        return np.concatenate(batches)

    def use_less(self, before: Attempt) -> None:
        """Tell the user, and move to the CPU if that is the next attempt."""
        from ...engine.models.loading import copy_to_cpu

        self._on_note(self.fallback.now.note)
        if self.fallback.now.device != before.device:
            self.model = copy_to_cpu(self.model)

    def _encode_first(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.model.encode_text(texts[: self.fallback.now.at_once])


def embed_as_fits(
    model: Backbone, vocabulary: Vocabulary
) -> Generator[tuple[int, int, str], None, npt.NDArray[np.float32]]:
    """Embed a vocabulary as `embed_vocabulary_steps` does, with as many sentences at once as fit.

    If not even one sentence fits, a copy of the model on the CPU embeds the rest. Words that are
    finished when memory runs out stay in the disk cache.
    """
    encoder = FittingEncoder(model, SENTENCES, "labels", lambda _: None)
    fallback = encoder.fallback

    def work() -> Generator[tuple[int, int, str], None, npt.NDArray[np.float32]]:
        words = embed_vocabulary_steps(encoder.model, vocabulary, sentences=fallback.now.at_once)
        return (yield from map_steps(lambda step: (*step, fallback.now.note), words))

    def use_less(before: Attempt) -> tuple[int, int, str]:
        encoder.use_less(before)
        return 0, len(vocabulary.words), fallback.now.note

    return (yield from fallback.run_steps(work, use_less))


def text_fallback(sentences: int, device: str, what: str) -> OomFallback:
    """Return the attempts at embedding text: fewer and fewer sentences at once, then the CPU."""
    short, count = f"Not enough memory for {what}", sentences
    attempts = [Attempt(count, device)]
    while count > 1:
        count = max(1, count // 4)
        note = f"{short}: {count} sentence{'s' * (count != 1)} at once"
        attempts.append(Attempt(count, device, note=note))
    attempts = then_on_cpu(attempts, f"{short} on {device}: embedding them on the CPU")
    return OomFallback(
        attempts,
        f"There was not enough memory for the {what}, not even for one sentence on "
        f"{attempts[-1].device}. Close other programs, or choose a smaller model.",
    )
