"""Text embeddings of vocabularies, cached on disk."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ...base.cache_folder import cache_folder
from ...base.steps import drive
from ..labels.vocabulary import Vocabulary
from .cache import TextCache

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

# Sentences between two chances to stop: a few seconds for a large model on a slow machine.
SENTENCES: Final = 32
# Words embedded between two writes to the cache.
_SAVE_EVERY = 512


def embed_vocabulary(
    model: Backbone,
    vocabulary: Vocabulary,
    *,
    cache: bool = True,
    on_batch: Callable[[int, int], None] | None = None,
) -> FloatArray:
    """Embed the words of a vocabulary: each label and each synonym.

    A word's embedding is the normalised mean of the unit embeddings of its prompts (CLIP's prompt
    ensembling).

    Shapes: returns (words, e).
    """
    work = embed_vocabulary_steps(model, vocabulary, cache=cache)
    return drive(work, None if on_batch is None else lambda step: on_batch(*step))


def embed_vocabulary_steps(
    model: Backbone, vocabulary: Vocabulary, *, cache: bool = True, sentences: int = SENTENCES
) -> Generator[tuple[int, int], None, FloatArray]:
    """`embed_vocabulary` as a generator that yields (words done, words) and may be closed.

    The model embeds ``sentences`` at once.
    """
    prompts = vocabulary.prompts()
    total = len(prompts)
    disk = TextCache(_cache_path(model), model.embed_dim) if cache else None
    vectors = {} if disk is None else disk.read(prompts)
    missing = [place for place in range(total) if place not in vectors]
    if missing:
        yield len(vectors), total
    at_once = max(1, sentences // len(vocabulary.templates))
    unsaved: dict[int, FloatArray] = {}
    try:
        for start in range(0, len(missing), at_once):
            batch = missing[start : start + at_once]
            means = _embed(model, [prompts[place] for place in batch], sentences)
            unsaved.update(zip(batch, means, strict=True))
            vectors.update(unsaved)
            if disk is not None and len(unsaved) >= _SAVE_EVERY:
                disk.write(unsaved, prompts)
                unsaved = {}
            yield len(vectors), total
    finally:
        # Also if the caller stops here.
        if disk is not None and unsaved:
            disk.write(unsaved, prompts)
    return np.stack([vectors[place] for place in range(total)])


def _embed(model: Backbone, prompts: list[list[str]], at_once: int) -> FloatArray:
    texts = [sentence for group in prompts for sentence in group]
    flat = np.concatenate(
        [model.encode_text(texts[i : i + at_once]) for i in range(0, len(texts), at_once)]
    )
    means = flat.reshape(len(prompts), len(prompts[0]), -1).mean(axis=1)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(means / np.maximum(lengths, 1e-12), dtype=np.float32)


def _cache_path(model: Backbone) -> Path:
    return cache_folder() / "text" / f"{model.fingerprint}.sqlite"
