"""Published DeCap checkpoints: a GPT-2 of four blocks that reads one projected embedding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ...base.download import sha256_of
from ...base.errors import ModelError
from .gpt2 import Gpt2Decoder, build, read_gpt2
from .memory import SupportMemory
from .settings import GenerationSettings

_HEADS: Final = 4
_END: Final = 49407  # of CLIP's own tokens
_PROJECTION: Final = "clip_project.model.0.weight"


class DeCap(Gpt2Decoder):
    """A checkpoint as the authors save it, with a memory of the user's sentences.

    Shapes: memory (M, e).
    """

    usual_tokens = 30  # in the authors' loop

    def __init__(
        self,
        path: Path,
        memory: Tensor,
        *,
        device: torch.device | str = "cpu",
        settings: GenerationSettings | None = None,
    ) -> None:
        from open_clip.tokenizer import SimpleTokenizer

        super().__init__(settings)
        state = read_gpt2(path, "decoder")
        projection = state.get(_PROJECTION)
        if projection is None or projection.ndim != 2:
            raise ModelError(f"{path} is not a checkpoint of DeCap: it has no {_PROJECTION}.")
        module: Any = nn.Module()
        module.clip_project = nn.Module()
        width, self.embed_dim = projection.shape
        module.clip_project.model = nn.Sequential(nn.Linear(self.embed_dim, width))
        self.gpt = build(module, state, path=path, heads=_HEADS, inside="decoder")
        module.to(device).eval()
        self._project = module.clip_project.model
        self._device = torch.device(device)
        self.name, self.weights = "decap", sha256_of(path)
        self.positions, self.stop = self.gpt.config.n_positions, _END
        if self.gpt.config.vocab_size <= _END:
            raise ModelError(f"{path} is not a checkpoint of DeCap: it lacks CLIP's tokens.")
        if memory.shape[1] != self.embed_dim:
            raise ModelError(
                f"{path} reads embeddings of {self.embed_dim} numbers; the memory has "
                f"{memory.shape[1]}: it belongs to another model."
            )
        self._tokenizer = SimpleTokenizer()
        self.memory = SupportMemory(memory.to(device))

    @property
    def prefix_length(self) -> int:
        """The projected embedding."""
        return 1

    def prefix(self, embeddings: Tensor) -> Tensor:
        """Project embeddings onto the memory, then into GPT-2."""
        projected: Tensor = self._project(self.memory.project(embeddings.to(self._device)))
        return projected[:, None]

    def text(self, tokens: Sequence[int]) -> str:
        """Decode CLIP's tokens; those that it does not have are left out."""
        known = [token for token in tokens if token <= _END]
        text = re.sub(
            r"<\|?(startoftext|endoftext|start_of_text|end_of_text)\|?>",
            "",
            self._tokenizer.decode(known),
        )
        return " ".join(text.split())
