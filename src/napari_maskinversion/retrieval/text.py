"""Text embeddings of vocabularies, kept on disk so that no sentence is embedded twice."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..core.cache import cache_folder
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..core.model import Backbone

FloatArray = npt.NDArray[np.float32]


def embed_vocabulary(model: Backbone, vocabulary: Vocabulary, *, cache: bool = True) -> FloatArray:
    """Embed the labels of a vocabulary.

    A label's embedding is the mean of the unit embeddings of its prompts, made a unit vector
    again (CLIP's prompt ensembling).

    Parameters
    ----------
    model : Backbone
    vocabulary : Vocabulary
    cache : bool
        Look up and keep the result on disk, under the cache folder, by model and prompts. A cache
        that cannot be read or written costs time, never the result.

    Returns
    -------
    ndarray, shape (labels, e)
        float32, L2 norm 1.
    """
    prompts = vocabulary.prompts()
    path = _cache_path(model, prompts)
    if cache and (kept := _load(path, (len(prompts), model.embed_dim))) is not None:
        return kept
    flat = model.encode_text([sentence for group in prompts for sentence in group])
    means = flat.reshape(len(prompts), len(vocabulary.templates), -1).mean(axis=1)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    result = np.asarray(means / np.maximum(lengths, 1e-12), dtype=np.float32)
    if cache:
        with suppress(OSError):
            _save(path, result)
    return result


def _cache_path(model: Backbone, prompts: list[list[str]]) -> Path:
    digest = hashlib.sha256(repr(prompts).encode()).hexdigest()[:32]
    return cache_folder() / "text" / model.fingerprint / f"{digest}.npz"


def _load(path: Path, shape: tuple[int, int]) -> FloatArray | None:
    """Give the kept embeddings, or None for a file that is missing, broken or of another shape."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = file["embeddings"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if found.shape != shape or found.dtype != np.float32 or not np.isfinite(found).all():
        return None
    return np.asarray(found)


def _save(path: Path, embeddings: FloatArray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, embeddings=embeddings)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
