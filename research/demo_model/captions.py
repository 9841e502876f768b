"""Train the caption decoder of a demo model: DeCap's recipe, on sentences alone.

Sentences say what the text tower tells apart and the images show: one to three things, drawn or
real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from napari_maskinversion.demo_model.scene_words import Name, names_of, with_article
from napari_maskinversion.language.generation.small_gpt import STOP, SmallGpt, SmallGptRecord

if TYPE_CHECKING:
    from napari_maskinversion.engine.models.backbone import Backbone

PADDING: Final = -100  # a place without a word in targets
_EVERY: Final = 100  # steps between two reports
_AHEAD: Final = 3  # sentences about several things for each about one
ONE: Final[dict[str, tuple[str, ...]]] = {
    "aerial": ("an aerial photo of {}", "a satellite image of {}", "{} seen from above"),
    "blood": ("{} in a blood smear", "a microscopy image of {}"),
    "nuclei": ("a microscopy image of {}",),
    "": ("{}", "a picture of {}", "a drawing of {}"),
}
"""Sentences about one thing, by the group of its name; "" is for drawn things."""
SEVERAL: Final = ("{}", "a picture of {}", "a drawing of {}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRecipe:
    """Settings of a training run."""

    seed: int = 0
    steps: int = 700
    batch: int = 96
    learning_rate: float = 3e-3
    width: int = 64
    layers: int = 3
    heads: int = 4
    several: int = 2500  # sentences about two or three things
    noise: float = 0.1  # standard deviation of the length that is added to a text's unit embedding
    sharpness: float = 50.0  # factor of cosines to the memory, chosen on validation scenes


def sentences_about(name: Name) -> list[str]:
    """Return all sentences about one thing; each ends with a full stop."""
    templates = ONE.get(name.group, ONE[""])
    return [f"{template.format(with_article(name.name))} ." for template in templates]


def sentence_about(names: Sequence[Name], rng: torch.Generator) -> str:
    """Return a random sentence about two or three things."""
    listed = [with_article(name.name) for name in names]
    text = " and ".join([" , ".join(listed[:-1]), listed[-1]])
    return f"{SEVERAL[int(torch.randint(len(SEVERAL), (1,), generator=rng))].format(text)} ."


def as_text(sentence: str) -> str:
    """Return a sentence as the text tower reads it."""
    return sentence.removesuffix(" .").replace(" ,", ",")


def draw_sentences(names: Sequence[Name], count: int, seed: int) -> list[str]:
    """Draw distinct sentences about two or three drawn things."""
    drawn = [name for name in names if name.icons]
    rng = torch.Generator().manual_seed(seed)
    sentences: dict[str, None] = {}
    for _ in range(4 * count):
        if len(sentences) == count or len(drawn) < 3:
            break
        several = 2 + int(torch.randint(2, (1,), generator=rng))
        chosen = torch.randperm(len(drawn), generator=rng)[:several].tolist()
        sentences[sentence_about([drawn[i] for i in chosen], rng)] = None
    return list(sentences)


def train_captions(
    model: Backbone,
    listed: Sequence[str],
    recipe: CaptionRecipe,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[SmallGpt, SmallGptRecord, Tensor]:
    """Train a decoder to write the sentences whose text embeddings it reads.

    Returned for `save_small_decoder`; the memory holds the sentences about one thing.
    """
    names = names_of(listed)
    singles = [sentence for name in names for sentence in sentences_about(name)]
    sentences = [*singles, *draw_sentences(names, recipe.several, recipe.seed)]
    embeddings = torch.from_numpy(model.encode_text([as_text(one) for one in sentences]))
    words = sorted({word for sentence in sentences for word in sentence.split()})
    longest = max(len(sentence.split()) for sentence in sentences)
    record = SmallGptRecord(
        model=model.name,
        fingerprint=model.fingerprint,
        words=tuple(words),
        embed_dim=model.embed_dim,
        width=recipe.width,
        layers=recipe.layers,
        heads=recipe.heads,
        positions=longest + 8,
        sharpness=recipe.sharpness,
    )
    state = torch.get_rng_state()
    torch.manual_seed(recipe.seed)
    gpt = SmallGpt(record)
    torch.nn.init.normal_(gpt.words.weight, std=0.02)
    torch.nn.init.normal_(gpt.places.weight, std=0.02)
    torch.set_rng_state(state)
    _fit(gpt, _tokens(sentences, words, longest), embeddings, len(singles), recipe, report)
    return gpt.eval(), record, embeddings[: len(singles)]


def _tokens(sentences: Sequence[str], words: Sequence[str], longest: int) -> Tensor:
    """Return the words of sentences as tokens (N, longest); places after the end are padding."""
    place = {word: token for token, word in enumerate(words)}
    rows = torch.full((len(sentences), longest), PADDING)
    for row, sentence in enumerate(sentences):
        tokens = [place[word] for word in sentence.split()]
        rows[row, : len(tokens)] = torch.tensor(tokens)
    assert all(sentence.endswith(STOP) for sentence in sentences)
    return rows


def _fit(
    gpt: SmallGpt,
    tokens: Tensor,
    embeddings: Tensor,
    singles: int,
    recipe: CaptionRecipe,
    report: Callable[[int, float], None],
) -> None:
    rng = torch.Generator().manual_seed(recipe.seed)
    optimiser = torch.optim.AdamW(gpt.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=recipe.steps, pct_start=0.1
    )
    some = recipe.batch // (_AHEAD + 1)
    size = embeddings.shape[1] ** 0.5
    for step in range(1, recipe.steps + 1):
        one = torch.randint(singles, (some,), generator=rng)
        rest = torch.randint(len(tokens), (recipe.batch - some,), generator=rng)
        rows = torch.cat([one, rest])
        texts = embeddings[rows]
        noise = torch.randn(texts.shape, generator=rng) * (recipe.noise / size)
        target = tokens[rows]
        inputs = torch.cat(
            [
                gpt.project(F.normalize(texts + noise, dim=-1))[:, None],
                gpt.words(target[:, :-1].clamp(min=0)),
            ],
            1,
        )
        loss = F.cross_entropy(gpt(inputs).flatten(0, 1), target.flatten(), ignore_index=PADDING)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if step % _EVERY == 0 or step == recipe.steps:
            report(step, float(loss.detach()))
