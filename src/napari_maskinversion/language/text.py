"""Text embeddings of vocabularies: cached on disk, fewer at once where memory runs out."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ..base.cache_folder import cache_folder, make_folder
from ..base.oom_fallback import Attempt, OomFallback, then_on_cpu
from ..base.progress import LABELS, tick
from ..base.wording import counted
from .labels.vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]
Prompts = Sequence[str]

# Sentences between two ticks: a few seconds for a large model on a slow machine.
SENTENCES: Final = 32
# Words embedded between two writes to the cache.
_SAVE_EVERY = 512


def embed_vocabulary(model: Backbone, vocabulary: Vocabulary) -> FloatArray:
    """Embed the words of a vocabulary: each label and each synonym.

    A word's embedding is the normalised mean of the unit embeddings of its prompts (CLIP's prompt
    ensembling). Words that are finished stay in the disk cache, however the work ends.

    Shapes: returns (words, e).
    """
    prompts = vocabulary.prompts()
    encoder = FittingEncoder(model, SENTENCES, "labels")
    total = len(prompts)
    disk = TextCache(cache_folder() / "text" / f"{model.fingerprint}.sqlite", model.embed_dim)
    vectors = disk.read(prompts)
    missing = [place for place in range(total) if place not in vectors]
    if missing:
        tick(LABELS, len(vectors), total)
    at_once = max(1, SENTENCES // len(vocabulary.templates))
    unsaved: dict[int, FloatArray] = {}
    try:
        for start in range(0, len(missing), at_once):
            batch = missing[start : start + at_once]
            means = _means(encoder, [prompts[place] for place in batch])
            unsaved.update(zip(batch, means, strict=True))
            vectors.update(unsaved)
            if len(unsaved) >= _SAVE_EVERY:
                disk.write(unsaved, prompts)
                unsaved = {}
            tick(LABELS, len(vectors), total, encoder.note)
    finally:
        # Also if the work is stopped here.
        if unsaved:
            disk.write(unsaved, prompts)
    return np.stack([vectors[place] for place in range(total)])


def _means(encoder: FittingEncoder, prompts: list[list[str]]) -> FloatArray:
    flat = encoder.encode(list(chain.from_iterable(prompts)))
    means = flat.reshape(len(prompts), len(prompts[0]), -1).mean(axis=1)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(means / np.maximum(lengths, 1e-12), dtype=np.float32)


class FittingEncoder:
    """Text encoder that embeds as many sentences at once as fit into memory.

    If not even one fits, a copy of the model on the CPU embeds the rest.
    """

    def __init__(self, model: Backbone, sentences: int, texts: str) -> None:
        self.model = model
        short = f"Not enough memory for {texts}"
        count = sentences
        device = str(model.device)
        attempts = [Attempt(count, device)]
        # Fewer sentences each time that memory runs out, down to one alone.
        while count > 1:
            count = max(1, count // 4)
            note = f"{short}: {counted(count, 'sentence')} at once"
            attempts.append(Attempt(count, device, note=note))
        attempts = then_on_cpu(attempts, f"{short} on {device}: embedding them on the CPU")
        self._fallback = OomFallback(
            attempts,
            f"There was not enough memory for the {texts}, not even for one sentence on "
            f"{attempts[-1].device}. Close other programs, or choose a smaller model.",
        )

    @property
    def note(self) -> str:
        """What is done differently because memory ran out."""
        return self._fallback.now.note

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embed sentences as `Backbone.encode_text` does."""
        batches: list[FloatArray] = []
        left = texts
        # A batch may be shorter than asked for: memory decides how many sentences fit.
        while left:
            batches.append(self._fallback.run(partial(self._encode_first, left), self._use_less))
            left = left[len(batches[-1]) :]
        return np.concatenate(batches)

    def _encode_first(self, texts: Sequence[str]) -> FloatArray:
        return self.model.encode_text(texts[: self._fallback.now.at_once])

    def _use_less(self, before: Attempt) -> None:
        from ..engine.models.loading import copy_to_cpu

        if self._fallback.now.device != before.device:
            self.model = copy_to_cpu(self.model)


# -- the cache on disk: one SQLite file per model, one row per label ---------------------------

_TABLE = (
    "CREATE TABLE IF NOT EXISTS embeddings"
    " (prompts BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
)
# Below SQLite's limit of variables in one statement.
_QUERY_SIZE = 500
# Seconds to wait while another program writes.
_TIMEOUT = 5.0


class TextCache:
    """Embeddings of one model, by prompts.

    If the file cannot be read or written, embeddings are computed again. A file that is not a
    database is replaced.
    """

    def __init__(self, path: Path, embed_dim: int) -> None:
        self._path = path
        self._embed_dim = embed_dim

    def read(self, prompts: Sequence[Prompts]) -> dict[int, FloatArray]:
        """Return cached vectors (e,), float32, by their index in ``prompts``."""
        places = {_key(group): place for place, group in enumerate(prompts)}
        keys = list(places)
        vectors = {}
        with suppress(OSError, sqlite3.Error), self._open(create=False) as database:
            for start in range(0, len(keys), _QUERY_SIZE):
                queried = keys[start : start + _QUERY_SIZE]
                marks = ",".join(["?"] * len(queried))
                for key, data in database.execute(
                    f"SELECT prompts, vector FROM embeddings WHERE prompts IN ({marks})", queried
                ):
                    vector = read_vector(data, self._embed_dim)
                    if vector is not None:
                        vectors[places[key]] = vector
        return vectors

    def write(self, vectors: Mapping[int, FloatArray], prompts: Sequence[Prompts]) -> None:
        """Store vectors, by the index of their prompts, in one transaction."""
        rows = []
        for i, vector in vectors.items():
            rows.append((_key(prompts[i]), vector.astype("<f4").tobytes()))
        with suppress(OSError, sqlite3.Error), self._open(create=True) as database, database:
            database.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", rows)

    @contextmanager
    def _open(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        if create:
            make_folder(self._path.parent)
        elif not self._path.exists():
            raise FileNotFoundError(self._path)
        try:
            with closing(sqlite3.connect(self._path, timeout=_TIMEOUT)) as database:
                database.execute(_TABLE)
                yield database
        except sqlite3.DatabaseError as error:
            # This class means "not a database" or "damaged"; subclasses mean, e.g., a lock.
            if type(error) is not sqlite3.DatabaseError:
                raise
            self._path.unlink(missing_ok=True)
            raise


def read_vector(data: object, length: int) -> FloatArray | None:
    """Return a float32 vector of a database, or None if it has another length or is not finite."""
    if not isinstance(data, bytes) or len(data) != 4 * length:
        return None
    vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
    if np.isfinite(vector).all():
        return vector
    return None


def _key(prompts: Prompts) -> bytes:
    return hashlib.sha256(repr(list(prompts)).encode()).digest()
