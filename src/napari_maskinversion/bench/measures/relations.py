"""Scores of regions for sentences as in ReCLIP: places and sizes that they name, and GradCAM.

A parser says which part of a sentence names the region, to which other thing it stands in which
relation, and which extreme it is. ReCLIP takes the dependency parser of spaCy; `by_words` reads
words and needs no package. Any other can be passed. ReCLIP's code also reads "between", but drops
what it finds; so "between" counts for nothing here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from torch import Tensor
from torch.nn.functional import cosine_similarity, interpolate

from ...base.errors import InputError
from ...base.regions import Regions
from ...engine.encode.attention import AttentionInputs, attention
from ...engine.methods.dense import (
    attention_update,
    class_token_tower,
    embed_patches,
    run_blocks,
)
from ...engine.models.backbone import Backbone

Floats = NDArray[np.float64]
EXPONENT: Final = 0.5  # of a box's area: between the sum (0), for large boxes, and the mean (1)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A parsed sentence."""

    head: str  # What names the region
    relation: str = ""  # A name of `RELATIONS`, and the thing that it stands in it to; "" for none
    other: str = ""
    extreme: str = ""  # A name of `EXTREMES`; "" for none

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts whose scores are needed besides those of the sentence."""
        if self.relation:
            return (self.head, self.other)
        return (self.head,)


Parser = Callable[[str], Phrase]

# By place: x, y of a box's centre, and its area; -1 says that less of it is more of the relation.
_MEASURES: Final = {
    "left": (0, -1),
    "right": (0, 1),
    "above": (1, -1),
    "below": (1, 1),
    "larger": (2, 1),
    "smaller": (2, -1),
}
# ReCLIP's own keywords: what is behind is higher in a photograph, what is closer is larger.
RELATIONS: Final[dict[str, frozenset[str]]] = {
    "left": frozenset({"left", "west"}),
    "right": frozenset({"right", "east"}),
    "above": frozenset({"above", "north", "top", "back", "behind"}),
    "below": frozenset({"below", "south", "under", "front"}),
    "larger": frozenset({"bigger", "larger", "closer"}),
    "smaller": frozenset({"smaller", "tinier", "further"}),
    "within": frozenset({"inside", "within", "contained"}),
}
EXTREMES: Final[dict[str, frozenset[str]]] = {
    "left": frozenset({"left", "west", "leftmost", "western"}),
    "right": frozenset({"right", "rightmost", "east", "eastern"}),
    "above": frozenset({"above", "north", "top"}),
    "below": frozenset({"below", "south", "underneath", "front"}),
    "larger": frozenset({"bigger", "biggest", "larger", "largest", "closer", "closest"}),
    "smaller": frozenset({"smaller", "smallest", "tinier", "tiniest", "further", "furthest"}),
}
_NO_THINGS: Final = {"part", "image", "side", "picture", "half", "region", "section"}
_ARTICLES: Final = {"the", "a", "an", "far", "very"}
_LINKS: Final = {"of", "from", "to", "than"}
# Words that begin something else than the thing itself.
_JOINTS: Final = _LINKS | {
    *("on", "at", "in", "with", "by", "near", "next", "and", "who", "that", "which", "behind"),
    *("holding", "wearing", "standing", "sitting", "facing", "looking", "under", "inside"),
}
_DIRECT: Final = {"above", "behind", "below", "under", "inside", "within"}  # need no "of"


def by_words(sentence: str) -> Phrase:
    """Parse a sentence by the words for relations and extremes in it.

    A word for an extreme counts where it stands with the thing itself ("left dog"), or alone behind
    a preposition ("dog on the left"); not where it is about another thing ("boy with right hand
    up").
    """
    words = sentence.lower().split()
    text = " ".join(words)
    for place, word in enumerate(words):
        relation = _name_of(word, RELATIONS)
        before = _without_joints(words[:place])
        after = words[place + 1 :]
        linked = bool(_LINKS & set(after[:2])) or word in _DIRECT | {"contained"}
        other = _thing(after)
        if relation and linked and before and other:
            head, extreme = _head(before)
            return Phrase(head, relation, " ".join(other), extreme)
    head, extreme = _head(words)
    if extreme:
        return Phrase(head, extreme=extreme)
    return Phrase(text)


def _name_of(word: str, table: dict[str, frozenset[str]]) -> str:
    return next((name for name, words in table.items() if word in words), "")


def _without_joints(words: Sequence[str]) -> list[str]:
    """Return the words before a relation, without its own such as "to the"."""
    kept = list(words)
    while kept and kept[-1] in _JOINTS | _ARTICLES:
        kept.pop()
    return kept


def _thing(words: Sequence[str]) -> list[str]:
    """Return the thing behind a relation; empty if it is a part of the image."""
    words_left = list(words)
    while words_left and words_left[0] in _LINKS | {"side", "by", "in"}:
        words_left.pop(0)
    content = [word for word in words_left if word not in _ARTICLES | _NO_THINGS]
    if content:
        return words_left
    return []


def _head(words: Sequence[str]) -> tuple[str, str]:
    """Return what names the region in words without a relation, and the extreme that it is."""
    pieces: list[list[str]] = [[]]
    for word in words:
        if word in _JOINTS and any(pieces):
            pieces.append([])
        else:
            pieces[-1].append(word)
    first, *later = pieces
    named = {_extreme(word, first) for word in first}
    extreme = next((name for name in EXTREMES if name in named), "")
    all_places = True
    for piece in later:
        names = []
        for word in piece:
            if name := _name_of(word, EXTREMES):
                names.append(name)
        bare = all(_name_of(word, EXTREMES) or word in _ARTICLES | _NO_THINGS for word in piece)
        all_places &= bare
        extreme = extreme or (names[0] if bare and names else "")
    return " ".join(first if all_places else words), extreme


def _extreme(word: str, piece: Sequence[str]) -> str:
    """Return the extreme of a word; "above" and the like count as one at the end alone."""
    prepositional = word in _DIRECT | {"underneath"} and word != piece[-1]
    if prepositional:
        return ""
    return _name_of(word, EXTREMES)


@dataclass(frozen=True, slots=True)
class OwnParser:
    """A parser of the user's, whose phrases are checked."""

    name: str  # ``MODULE:FUNCTION``, kept in the records
    function: Parser

    def __call__(self, sentence: str) -> Phrase:
        """Parse a sentence."""
        try:
            phrase = self.function(sentence)
        except Exception as error:
            raise InputError(f"--parser {self.name} failed at {sentence!r}: {error!r}.") from None
        is_phrase = isinstance(phrase, Phrase) and phrase.relation in ("", *RELATIONS)
        if not is_phrase or phrase.extreme not in ("", *EXTREMES):
            raise InputError(
                f"--parser {self.name} returned {phrase!r} for {sentence!r}; it must return a "
                f"Phrase of {__name__} with a relation ({', '.join(RELATIONS)}), an extreme "
                f"({', '.join(EXTREMES)}), or neither."
            )
        return phrase


def load_parser(name: str) -> OwnParser:
    """Import a parser of the user's."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise InputError(f"--parser takes MODULE:FUNCTION, such as mine:parse; got {name!r}.")
    try:
        parser = OwnParser(name, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise InputError(f"--parser {name} cannot be imported ({error}).") from None
    parser("left dog")
    return parser


def related(
    logits: Floats, phrases: Sequence[Phrase], texts: Sequence[str], regions: Regions
) -> Floats:
    """Return logarithms of probabilities of regions, not normalised, with relations and extremes.

    They are -inf for regions that a relation or an extreme excludes.

    As in ReCLIP, the probability by the whole sentence is multiplied by the one by its parts: that
    of the head, times the sum of those of the other things that a region is related to, times the
    sum of its own kind that it exceeds.

    Shapes: logits (T, N); returns (sentences, N).
    """
    # Logarithms throughout: where sentence and parts disagree, products are too small to differ.
    shares = log_softmax(logits, axis=1)
    places = {text: place for place, text in enumerate(texts)}
    boxes = np.array([region.bbox for region in regions], float)
    rows = []
    for row, phrase in zip(shares, phrases, strict=False):
        if phrase.relation or phrase.extreme:
            part = shares[places[phrase.head]]
            if phrase.relation:
                other = shares[places[phrase.other]]
                part = part + _log_sums(_compared(boxes, phrase.relation), other)
            if phrase.extreme:
                part = part + _log_sums(_compared(boxes, phrase.extreme), part)
            row = row + part
        rows.append(row)
    return np.array(rows)


def _log_sums(weights: Floats, logarithms: Floats) -> Floats:
    """Return log(weights @ exp(logarithms)), (N,), for weights (N, M); -inf where all are 0."""
    with np.errstate(divide="ignore"):
        terms = np.log(weights) + logarithms
    return np.asarray(logsumexp(terms, axis=1))


def _compared(boxes: Floats, name: str) -> Floats:
    """Return (N, N): whether region i is more of something than j, or its share within j."""
    y0, x0, y1, x1 = boxes.T
    area = (y1 - y0) * (x1 - x0)
    if name == "within":
        high = np.minimum(y1[:, None], y1) - np.maximum(y0[:, None], y0)
        wide = np.minimum(x1[:, None], x1) - np.maximum(x0[:, None], x0)
        return np.asarray(np.maximum(high, 0) * np.maximum(wide, 0) / area[:, None])
    which, sign = _MEASURES[name]
    measure = sign * np.stack([(x0 + x1) / 2, (y0 + y1) / 2, area])[which]
    return np.asarray(measure[:, None] > measure[None], np.float64)


def class_token_maps(
    model: Backbone, image: Tensor, texts: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return what ReCLIP's code for a vision transformer calls GradCAM.

    The gradient of the cosine of text and image by the attention of the last block, times that
    attention; negative products count as 0, heads are averaged, and the row of [CLS] is the map.
    MaskInversion's own explainability maps are of the mean token's score instead.

    Shapes: image (1, 3, h, w); texts (T, e); returns (T, grid_h, grid_w), float32.
    """
    visual = class_token_tower(model, "ReCLIP's GradCAM")
    tokens, grid = embed_patches(visual, image)
    tokens = run_blocks(visual, tokens, stop=-1)
    block = visual.transformer.resblocks[-1]
    with torch.no_grad():
        inputs = AttentionInputs.of(block, block.ln_1(tokens)[0])
        weights = attention(inputs.queries(), inputs.keys())
        values = inputs.values()
    weights = weights.detach().requires_grad_()
    with torch.enable_grad():
        out = tokens + attention_update(block, weights @ values)
        out = out + block.ls_2(block.mlp(block.ln_2(out)))
        embedding = (visual.ln_post(out[:, 0]) @ visual.proj).float()
        cosines = cosine_similarity(torch.from_numpy(texts).to(embedding), embedding)
    maps = []
    for cosine in cosines:
        (gradient,) = torch.autograd.grad(cosine, weights, retain_graph=True)
        relevance = (gradient * weights.detach()).relu().mean(0)
        maps.append(relevance[0, 1:].reshape(grid.height, grid.width))
    return np.asarray(torch.stack(maps).float().cpu().numpy(), np.float32)


def map_scores(maps: NDArray[np.float32], regions: Regions) -> NDArray[np.float32]:
    """Return the sum of each text's map in each region's box, over the root of the box's area.

    The map is brought to the size of the image bicubically, and not stretched.

    Shapes: maps (T, grid_h, grid_w); returns (T, N), float32.
    """
    rows = []
    for grid_map in maps:
        tokens = torch.from_numpy(grid_map)[None, None]
        heat = interpolate(tokens, size=regions.shape, mode="bicubic", align_corners=False)[0, 0]
        boxes = (region.bbox for region in regions)
        sums = ((heat[y0:y1, x0:x1].sum(), (y1 - y0) * (x1 - x0)) for y0, x0, y1, x1 in boxes)
        rows.append([float(total) / area**EXPONENT for total, area in sums])
    return np.array(rows, np.float32)
