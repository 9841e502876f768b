"""CLIPCap: an embedding becomes ten words that GPT-2 goes on from (Mokady et al., 2021)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ...base.download import sha256_of
from ...base.errors import InputError, ModelError
from ...base.reading import read_json
from .gpt2 import Gpt2Decoder, build, read_gpt2
from .settings import GenerationSettings

_STOP: Final = "."
_MAPPER: Final = ("clip_project.model.0.weight", "clip_project.model.2.weight")
_TRANSFORMER: Final = re.compile(r"^clip_project\.(transformer|linear|prefix_const)")
_MOST_JSON: Final = 50_000_000  # bytes


class _Mapper(nn.Module):
    """The mapper under its published names: two linear layers."""

    def __init__(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(first[1], first[0]), nn.Tanh(), nn.Linear(second[1], second[0])
        )

    def forward(self, embeddings: Tensor) -> Tensor:
        mapped: Tensor = self.model(embeddings)
        return mapped


class ClipCap(Gpt2Decoder):
    """GPT-2 behind a mapper, loaded from a published checkpoint."""

    def __init__(
        self,
        path: Path,
        vocabulary: Path,
        *,
        name: str = "clipcap",
        device: torch.device | str = "cpu",
        settings: GenerationSettings | None = None,
    ) -> None:
        super().__init__(settings)
        state = read_gpt2(path, "gpt")
        if any(_TRANSFORMER.match(key) for key in state):
            raise ModelError(
                f"{path} has CLIPCap's transformer mapper, which is published for RN50x4 alone; "
                "use coco_weights.pt or conceptual_weights.pt, whose mapper has two linear layers."
            )
        width = state["gpt.transformer.wte.weight"].shape[1]
        shapes = [tuple(state[key].shape) if key in state else () for key in _MAPPER]
        if [len(shape) for shape in shapes] != [2, 2] or shapes[1][0] % width:
            raise ModelError(
                f"{path} has no mapper of CLIPCap: {_MAPPER[0]} and {_MAPPER[1]} must be tables "
                f"that end in a multiple of {width}."
            )
        module: Any = nn.Module()
        module.clip_project = mapper = _Mapper(*shapes)  # type: ignore[arg-type]
        self.gpt = build(module, state, path=path, heads=None, inside="gpt")
        self.mapper = mapper
        module.to(device).eval()
        self.name, self.weights = name, sha256_of(path)
        self.embed_dim, self.positions = shapes[0][1], self.gpt.config.n_positions
        self._prefix, self._width, self._device = shapes[1][0] // width, width, torch.device(device)
        self._words = read_vocabulary(vocabulary, self.gpt.config.vocab_size)
        self.stop = self._words.index(_STOP)

    @property
    def prefix_length(self) -> int:
        """Inputs that the mapper writes: ten in the published checkpoints."""
        return self._prefix

    def prefix(self, embeddings: Tensor) -> Tensor:
        """Map embeddings, which are not normalised."""
        mapped: Tensor = self.mapper(embeddings.to(self._device))
        return mapped.view(len(embeddings), self._prefix, self._width)

    def text(self, tokens: Sequence[int]) -> str:
        """Decode GPT-2's byte pairs."""
        return decode_bytes([self._words[token] for token in tokens])


def read_vocabulary(path: Path, size: int) -> list[str]:
    """Read GPT-2's ``vocab.json``: byte pairs by token."""
    try:
        table = read_json(path, "vocabulary of GPT-2", most=_MOST_JSON)
    except InputError as error:
        raise ModelError(str(error)) from None
    if not isinstance(table, dict) or sorted(map(str, table.values())) != sorted(
        map(str, range(size))
    ):
        raise ModelError(f"{path} is not a vocabulary of {size} tokens for this GPT-2.")
    if _STOP not in table:
        raise ModelError(f"{path} is not a vocabulary of GPT-2: it has no full stop.")
    return sorted(table, key=lambda word: int(table[word]))


def decode_bytes(words: Sequence[str]) -> str:
    """Return the text of byte pairs; GPT-2 writes each byte as a visible character."""
    from open_clip.tokenizer import bytes_to_unicode

    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}
    data = bytes(byte_of[character] for word in words for character in word if character in byte_of)
    return data.decode("utf-8", "replace").strip()
