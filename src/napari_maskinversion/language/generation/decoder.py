"""What all decoders of embeddings have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor

from ...base.errors import ConfigError, InputError
from ...base.steps import Steps, drive
from ...engine.compute.compute_lock import locked_steps
from .settings import FloatArray, GenerationSettings
from .word_search import search

BATCH: Final = 16  # sentences written at once


class SentenceGenerator(Protocol):
    """Whatever turns embeddings into sentences."""

    def generate(self, embeddings: FloatArray) -> list[str]:
        """Return a sentence for each embedding (N, e), as optimised, not normalised."""


class CaptionDecoder(ABC):
    """Writes a sentence from an embedding. `load_decoder` returns one."""

    name: str
    weights: str  # SHA-256 of its weights
    embed_dim: int  # Size of the embeddings that it reads
    positions: int  # Tokens and prefix that it can read together
    stop: int  # Token that ends a sentence
    usual_tokens: int = 67  # Length at which a sentence is cut unless the settings say otherwise

    def __init__(self, settings: GenerationSettings | None = None) -> None:
        self.settings = settings or GenerationSettings()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def generate(
        self, embeddings: FloatArray, settings: GenerationSettings | None = None
    ) -> list[str]:
        """Return a sentence for each embedding.

        Shapes: embeddings (N, e), float32.
        """
        return drive(self.generate_steps(embeddings, settings))

    def generate_steps(
        self, embeddings: FloatArray, settings: GenerationSettings | None = None
    ) -> Generator[tuple[int, int], None, list[str]]:
        """Do what `generate` does, and yield (finished, all) after every token."""
        settings = settings or self.settings
        self.check(settings)
        rows = np.asarray(embeddings, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.embed_dim:
            raise InputError(
                f"The decoder {self.name} needs embeddings of shape (regions, {self.embed_dim}); "
                f"got {rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise InputError("An embedding is not finite (NaN or infinity); run again.")
        sentences: list[str] = []
        for start in range(0, len(rows), BATCH):
            batch = torch.from_numpy(rows[start : start + BATCH].copy())
            with Steps(locked_steps(self._search(batch, settings))) as steps:
                for done in steps:
                    yield start + done, len(rows)
            sentences += [self.text(tokens) for tokens in steps.result]
        return sentences

    def _search(
        self, embeddings: Tensor, settings: GenerationSettings
    ) -> Generator[int, None, list[list[int]]]:
        longest = settings.max_tokens or min(self.usual_tokens, self.most_tokens)
        return (yield from search(self, self.prefix(embeddings), settings, longest))

    def check(self, settings: GenerationSettings) -> None:
        """Refuse sentences that are longer than this decoder can write."""
        if (settings.max_tokens or 1) > self.most_tokens:
            raise ConfigError(
                f"The decoder {self.name} writes at most {self.most_tokens} tokens; got max_tokens "
                f"{settings.max_tokens}."
            )

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest sentence that it can write."""
        return self.positions - self.prefix_length

    @property
    @abstractmethod
    def prefix_length(self) -> int:
        """Inputs that stand for the embedding."""

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
