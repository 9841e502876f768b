"""Choose words one after the other: greedy, beam and top-p search.

Beam search sorts sentences by their mean log-probability at every step, as CLIPCap's own code does;
the search of the transformers package does so only for finished ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

import torch
from torch import Tensor

from .settings import GenerationSettings

Searching = Generator[int, None, list[list[int]]]


class LanguageModel(Protocol):
    """What a search asks for."""

    stop: int

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the inputs (N, T, d) of tokens (N, T)."""

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the logits (N, V) of the token after inputs (N, T, d)."""


def search(
    model: LanguageModel, prefix: Tensor, settings: GenerationSettings, longest: int
) -> Searching:
    """Write a sentence for each prefix; a sentence ends with the stop token, which is kept.

    Shapes: prefix (N, P, d).
    """
    if settings.search == "beam":
        sentences = []
        for row in range(len(prefix)):
            best = yield from _beam(model, prefix[row : row + 1], settings, longest, row)
            sentences.append(best)
        return sentences
    draws = [torch.Generator().manual_seed(settings.seed) for _ in range(len(prefix))]

    def choose(logits: Tensor, rows: list[int]) -> Tensor:
        if settings.search == "greedy":
            return logits.argmax(-1)
        return _draw(logits, [draws[row] for row in rows], settings)

    return (yield from _one_by_one(model, prefix, longest, choose))


def _one_by_one(
    model: LanguageModel,
    prefix: Tensor,
    longest: int,
    choose: Callable[[Tensor, list[int]], Tensor],
) -> Searching:
    sentences: list[list[int]] = [[] for _ in range(len(prefix))]
    rows, inputs = list(range(len(prefix))), prefix
    for _ in range(longest):
        tokens = choose(model.logits(inputs), rows)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            sentences[row].append(token)
        going = tokens != model.stop
        rows = [row for row, more in zip(rows, going.tolist(), strict=True) if more]
        yield len(prefix) - len(rows)
        if not rows:
            break
        inputs = torch.cat([inputs[going], model.embed(tokens[going, None])], 1)
    return sentences


def _draw(logits: Tensor, draws: list[torch.Generator], settings: GenerationSettings) -> Tensor:
    """Draw tokens (N,) from the likeliest ones whose shares add up to ``top_p``."""
    shares, order = (logits.float() / settings.temperature).softmax(-1).cpu().sort(descending=True)
    before = shares.cumsum(-1) - shares
    shares = torch.where(before < settings.top_p, shares, 0.0)  # always at least one
    places = [
        int(torch.multinomial(row, 1, generator=draw))
        for row, draw in zip(shares, draws, strict=True)
    ]
    return order[torch.arange(len(places)), places].to(logits.device)


def _beam(
    model: LanguageModel, prefix: Tensor, settings: GenerationSettings, longest: int, done: int
) -> Generator[int, None, list[int]]:
    """Return the sentence of one prefix (1, P, d) with the best mean log-probability."""
    scores = (model.logits(prefix).float() / settings.temperature).log_softmax(-1)
    beams = min(settings.beams, scores.shape[-1])
    sums, first = scores[0].topk(beams)
    tokens = first[:, None]
    lengths, stopped = torch.ones_like(sums), first == model.stop
    inputs = torch.cat([prefix.expand(beams, -1, -1), model.embed(tokens)], 1)
    for _ in range(longest - 1):
        yield done
        if bool(stopped.all()):
            break
        scores = (model.logits(inputs).float() / settings.temperature).log_softmax(-1)
        # A finished sentence goes on in one way only, which costs nothing.
        scores[stopped] = -torch.inf
        scores[stopped, 0] = 0
        lengths = lengths + (~stopped).float()
        means = (sums[:, None] + scores) / lengths[:, None]
        best, place = means.flatten().topk(beams)
        source, last = place // scores.shape[1], place % scores.shape[1]
        lengths, stopped = lengths[source], stopped[source]
        sums = best * lengths
        tokens = torch.cat([tokens[source], last[:, None]], 1)
        inputs = torch.cat([inputs[source], model.embed(last[:, None])], 1)
        stopped = stopped | (last == model.stop)
    winner = int((sums / lengths).argmax())
    return [int(token) for token in tokens[winner, : int(lengths[winner])]]
