"""Train the text tower, before the image tower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from napari_maskinversion.demo_model.scene_words import Name
from napari_maskinversion.demo_model.scenes import NOTHING, generator

from .losses import caption_loss, name_loss
from .model import encode_text, tokenize


def caption(names: Sequence[Name], rng: torch.Generator) -> str:
    """Return a random caption of a scene, with its names in random order."""
    order = torch.randperm(len(names), generator=rng).tolist()
    listed = [f"a {_word(names[i], rng)}" for i in order]
    text = " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
    starts = ("", "a photo of ", "a picture of ", "there is ")
    return starts[_pick(len(starts), rng)] + text


def _pick(count: int, rng: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=rng))


def _word(name: Name, rng: torch.Generator) -> str:
    """Return the name two times in three, else a synonym."""
    if not name.synonyms or _pick(3, rng):
        return name.name
    return name.synonyms[_pick(len(name.synonyms), rng)]


def train_text(
    model: Any, names: Sequence[Name], steps: int, *, seed: int = 0, report: bool = True
) -> None:
    """Train the text tower to map a name, its synonyms and templates together, and names apart.

    Images then have fixed, well separated targets: trained together, both towers idle for hundreds
    of steps before they agree on anything. A caption lies between the names it lists.
    """
    # 6.3 of 7.6 million parameters; random ones tell the few words apart, if they are loud enough
    embedding = model.token_embedding.weight.requires_grad_(False)
    embedding *= 0.2 / embedding.std()
    device = embedding.device
    tower = [p for n, p in model.named_parameters() if p.requires_grad and "visual" not in n]
    optimiser = torch.optim.AdamW(tower, lr=1e-3)
    scale = torch.tensor(14.0, device=device)
    for step in range(steps):
        rng = generator("train", seed * 10_000_000 + 9_000_000 + step)
        optimiser.param_groups[0]["lr"] = 1e-3 * (1 - step / steps)
        texts = [n.phrases[_pick(len(n.phrases), rng)] for _ in range(2) for n in names]
        labels = torch.rand(32, len(names), generator=rng).argsort(1)[:, :4]
        counts = torch.randint(2, 5, (32, 1), generator=rng)
        labels = torch.where(torch.arange(labels.shape[1]) < counts, labels, NOTHING)
        captions = [caption([names[i] for i in row if i >= 0], rng) for row in labels.tolist()]
        embeddings = F.normalize(encode_text(model, tokenize(texts + captions).to(device)), dim=-1)
        one, two, mixed = embeddings.split([len(names), len(names), 32])  # type: ignore[no-untyped-call]
        apart = caption_loss(one, two, scale)
        between = name_loss(mixed, one, labels.to(device), scale)
        optimiser.zero_grad(set_to_none=True)
        (apart + between).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if report and (step + 1) % 100 == 0:
            print(f"text {step + 1} apart {apart:.3f} between {between:.3f}", flush=True)
    model.requires_grad_(True)


def phrase_table(model: Any, names: Sequence[Name], rows: int = 24) -> Tensor:
    """Embed up to `rows` phrases of every name, (rows, N, e), unit norm."""
    table = []
    with torch.no_grad():
        for name in names:
            tokens = tokenize(list(name.phrases)).to(model.token_embedding.weight.device)
            embeddings = F.normalize(encode_text(model, tokens), dim=-1)
            table.append(embeddings[torch.arange(rows) * 7 % len(embeddings)])
    return torch.stack(table, 1)
