"""A small DeCap in plain torch: a GPT of few words that reads one projected embedding.

Texts and images lie in different parts of the joint space. A decoder that was trained on texts
alone reads a mean of the texts nearest to a region instead of the region itself (Li et al.,
"DeCap", ICLR 2023). Its file is a safetensors file: half-precision weights and memory, with words
and the model's fingerprint in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...base.atomic_files import write_whole
from ...base.errors import ModelError
from ...base.reading import check_file, parse_json, sha256_of, validated
from ...engine.models.checkpoints import fill, read_weights
from .decoder import CaptionDecoder
from .settings import GenerationSettings

STOP: Final = "."
_NOT_JOINED: Final = (STOP, ",")  # no blank before these
SHARPNESS: Final = 100.0  # the authors' factor of the cosines
_ROWS: Final = 100_000  # of the memory, in float32 at once
_RECORD: Final = "record"
_MEMORY: Final = "memory"
_Size = Annotated[int, Field(ge=1, le=4096)]
_Depth = Annotated[int, Field(ge=1, le=48)]


class SupportMemory:
    """Embeddings of sentences.

    Shapes: vectors (M, e).
    """

    def __init__(self, vectors: Tensor, sharpness: float = SHARPNESS) -> None:
        self.vectors = vectors
        self.sharpness = sharpness

    def project(self, embeddings: Tensor) -> Tensor:
        """Return unit means (N, e) of the memory, weighted by the softmax of the cosines."""
        unit = F.normalize(embeddings.float(), dim=-1)
        pieces = self.vectors.split(_ROWS)  # type: ignore[no-untyped-call]
        cosines = torch.cat([unit @ piece.float().T for piece in pieces], -1)
        shares = (self.sharpness * cosines).softmax(-1).split(_ROWS, dim=-1)  # type: ignore[no-untyped-call]
        means = [share @ piece.float() for share, piece in zip(shares, pieces, strict=True)]
        return F.normalize(torch.stack(means).sum(0), dim=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallGptRecord:
    """What a decoder's file says about it."""

    model: str  # The model whose text tower it inverts
    fingerprint: str
    words: tuple[str, ...]  # Words by token
    embed_dim: _Size
    width: _Size
    layers: _Depth
    heads: _Size
    positions: _Size
    sharpness: Annotated[float, Field(gt=0, le=1e4)]  # See `SupportMemory`
    format: Literal["napari-maskinversion small DeCap 1"] = "napari-maskinversion small DeCap 1"


class SmallGpt(nn.Module):
    """A transformer over one embedding and the words after it."""

    def __init__(self, record: SmallGptRecord) -> None:
        super().__init__()
        width = record.width
        self.project = nn.Linear(record.embed_dim, width)
        self.words = nn.Embedding(len(record.words), width)
        self.places = nn.Embedding(record.positions, width)
        blocks = []
        for _ in range(record.layers):
            blocks.append(
                nn.TransformerEncoderLayer(
                    width,
                    record.heads,
                    4 * width,
                    dropout=0.0,
                    activation="gelu",
                    batch_first=True,
                    norm_first=True,
                )
            )
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (N, T, V) after each of the inputs (N, T, d)."""
        length = inputs.shape[1]
        x = inputs + self.places.weight[:length]
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=later)
        logits: Tensor = self.norm(x) @ self.words.weight.T
        return logits


class SmallDecoder(CaptionDecoder):
    """Writes sentences of a small vocabulary.

    Shapes: memory (M, e).
    """

    def __init__(
        self,
        gpt: SmallGpt,
        record: SmallGptRecord,
        memory: Tensor,
        *,
        name: str = "decap",
        weights: str = "",
        settings: GenerationSettings | None = None,
    ) -> None:
        super().__init__(settings)
        self.name = name
        self.weights = weights
        self.record = record
        self.embed_dim = record.embed_dim
        self.positions = record.positions
        self.stop = record.words.index(STOP)
        self.gpt = gpt.eval()
        self.memory = SupportMemory(memory, record.sharpness)

    def prefix(self, embeddings: Tensor) -> Tensor:
        """Project embeddings onto the memory, then into the decoder."""
        prefix: Tensor = self.gpt.project(self.memory.project(embeddings))[:, None]
        return prefix

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the words' vectors."""
        vectors: Tensor = self.gpt.words(tokens)
        return vectors

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the logits of the next word."""
        logits: Tensor = self.gpt(inputs)[:, -1]
        return logits

    def text(self, tokens: Sequence[int]) -> str:
        """Join words to a sentence with a capital."""
        words = [self.record.words[token] for token in tokens]
        text = ""
        for word in words:
            if word not in _NOT_JOINED:
                text += " "
            text += word
        text = text.strip()
        return text[:1].upper() + text[1:]


def save_small_decoder(path: Path, gpt: SmallGpt, record: SmallGptRecord, memory: Tensor) -> None:
    """Write a decoder in half precision, whole or not at all."""
    from safetensors.torch import save

    tensors = {name: tensor.detach() for name, tensor in gpt.state_dict().items()}
    tensors[_MEMORY] = memory
    halves = {}
    for name, tensor in tensors.items():
        halves[name] = tensor.cpu().half().contiguous()
    metadata = {"format": "pt", _RECORD: json.dumps(asdict(record), ensure_ascii=False)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(halves, metadata=metadata))


def load_small_decoder(
    path: Path, *, name: str = "decap", settings: GenerationSettings | None = None
) -> SmallDecoder:
    """Read what `save_small_decoder` wrote."""
    record = read_record(path)
    state, _ = read_weights(path)
    memory = state.pop(_MEMORY, None)
    if memory is None or memory.ndim != 2 or memory.shape[1] != record.embed_dim:
        raise ModelError(f"{path} is damaged: it has no memory of sentences.")
    with torch.device("meta"):
        gpt = SmallGpt(record)
    fill(gpt, state, path=path, architecture="of its own record")
    return SmallDecoder(gpt, record, memory, name=name, weights=sha256_of(path), settings=settings)


def read_record(path: Path) -> SmallGptRecord:
    """Read the record in the metadata of a decoder's file; its weights stay on disk."""
    from safetensors import SafetensorError, safe_open

    check_file(path, "caption decoder")
    try:
        with safe_open(path, "pt") as file:
            record = (file.metadata() or {})[_RECORD]
    except (SafetensorError, OSError, KeyError) as error:
        raise ModelError(
            f"{path} is damaged or no caption decoder of this program ({error})."
        ) from None
    return validated(SmallGptRecord, parse_json(record.encode(), "record"), path)
