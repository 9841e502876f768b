"""What all decoders of embeddings have in common, and how they choose words.

Beam search sorts sentences by their mean log-probability at every step, as CLIPCap's own code does;
the search of the transformers package does so only for finished ones. Greedy sentences are those of
that package; they are written here too, since the demo model's decoder must work without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ...base.errors import ConfigError
from ...base.progress import CAPTIONS, Tick, telling, tick
from ...engine.compute.compute_lock import computing
from .settings import FloatArray, GenerationSettings

BATCH: Final = 16  # sentences written at once


class CaptionDecoder(ABC):
    """Writes a sentence from an embedding. `load_decoder` returns one."""

    name: str
    weights: str  # SHA-256 of its weights
    embed_dim: int  # Size of the embeddings that it reads
    positions: int  # Tokens and prefix that it can read together
    prefix_length: int = 1  # Inputs that stand for the embedding
    stop: int  # Token that ends a sentence
    usual_tokens: int = 67  # Length at which a sentence is cut unless the settings say otherwise

    def __init__(self, settings: GenerationSettings | None = None) -> None:
        self.settings = settings or GenerationSettings()

    def generate(
        self, embeddings: FloatArray, settings: GenerationSettings | None = None
    ) -> list[str]:
        """Return a sentence for each embedding.

        Shapes: embeddings (N, e), float32.
        """
        settings = settings or self.settings
        self.check(settings)
        rows = np.asarray(embeddings, np.float32)
        sentences: list[str] = []
        for start in range(0, len(rows), BATCH):
            batch = torch.from_numpy(rows[start : start + BATCH].copy())
            with telling(partial(_finished, start, len(rows))):
                tokens = self._search(batch, settings)
            sentences += [self.text(sentence) for sentence in tokens]
        return sentences

    def check(self, settings: GenerationSettings) -> None:
        """Refuse sentences that this decoder cannot write."""
        if (settings.max_tokens or 1) > self.most_tokens:
            raise ConfigError(
                f"The decoder {self.name} writes at most {self.most_tokens} tokens; got max_tokens "
                f"{settings.max_tokens}."
            )

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest sentence that it can write."""
        return self.positions - self.prefix_length

    @abstractmethod
    def prefix(self, embeddings: Tensor) -> Tensor:
        """Return the inputs (N, P, d) that stand for embeddings (N, e)."""

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Return the inputs (N, T, d) of tokens (N, T)."""

    @abstractmethod
    def logits(self, inputs: Tensor) -> Tensor:
        """Return the logits (N, V) of the token after inputs (N, T, d)."""

    @abstractmethod
    def text(self, tokens: Sequence[int]) -> str:
        """Return the sentence of tokens."""

    # -- the choice of words: a sentence ends with the stop token, which is kept -----------------

    @computing()
    def _search(self, embeddings: Tensor, settings: GenerationSettings) -> list[list[int]]:
        longest = settings.max_tokens or min(self.usual_tokens, self.most_tokens)
        prefix = self.prefix(embeddings)
        if settings.search == "greedy":
            return self._greedy(prefix, longest)
        sentences = []
        for row in range(len(prefix)):
            best = self._beam(prefix[row : row + 1], settings, longest, row)
            sentences.append(best)
        return sentences

    def _greedy(self, inputs: Tensor, longest: int) -> list[list[int]]:
        count = len(inputs)
        sentences: list[list[int]] = [[] for _ in range(count)]
        rows = torch.arange(count)  # those that go on
        for _ in range(longest):
            tokens = self.logits(inputs).argmax(-1)
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
                sentences[row].append(token)
            going = tokens != self.stop
            rows = rows[going.cpu()]
            tick(CAPTIONS, count - len(rows), count)
            if not len(rows):
                break
            inputs = torch.cat([inputs[going], self.embed(tokens[going, None])], 1)
        return sentences

    def _beam(
        self, prefix: Tensor, settings: GenerationSettings, longest: int, done: int
    ) -> list[int]:
        """Return the sentence of one prefix (1, P, d) with the best mean log-probability."""
        scores = (self.logits(prefix).float() / settings.temperature).log_softmax(-1)
        beams = min(settings.beams, scores.shape[-1])
        sums, first = scores[0].topk(beams)
        tokens = first[:, None]
        lengths = torch.ones_like(sums)
        stopped = first == self.stop
        inputs = torch.cat([prefix.expand(beams, -1, -1), self.embed(tokens)], 1)
        for _ in range(longest - 1):
            tick(CAPTIONS, done, len(prefix))
            if bool(stopped.all()):
                break
            scores = (self.logits(inputs).float() / settings.temperature).log_softmax(-1)
            # A finished sentence goes on in one way only, which costs nothing.
            scores[stopped] = -torch.inf
            scores[stopped, 0] = 0
            lengths = lengths + (~stopped).float()
            means = (sums[:, None] + scores) / lengths[:, None]
            best, place = means.flatten().topk(beams)
            source = place // scores.shape[1]
            last = place % scores.shape[1]
            lengths = lengths[source]
            stopped = stopped[source]
            sums = best * lengths
            tokens = torch.cat([tokens[source], last[:, None]], 1)
            inputs = torch.cat([inputs[source], self.embed(last[:, None])], 1)
            stopped = stopped | (last == self.stop)
        winner = int((sums / lengths).argmax())
        return [int(token) for token in tokens[winner, : int(lengths[winner])]]


def _finished(before: int, total: int, news: Tick) -> Tick:
    return Tick(CAPTIONS, before + news.done, total)
