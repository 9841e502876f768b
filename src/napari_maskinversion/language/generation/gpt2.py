"""GPT-2 of the transformers package, built from the shapes in a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from ...base.errors import ModelError
from ...engine.models.checkpoints import fill, read_weights
from .decoder import CaptionDecoder

_HEAD: Final = 64  # numbers of an attention head in every published GPT-2
# Constants that older versions of the transformers package saved with the weights.
_STALE: Final = re.compile(r"\.attn\.(bias|masked_bias)$")


class Gpt2Decoder(CaptionDecoder):
    """A decoder whose words come from a GPT-2."""

    gpt: Any
    _device: torch.device

    def embed(self, tokens: Tensor) -> Tensor:
        """Look tokens up in GPT-2's table."""
        vectors: Tensor = self.gpt.transformer.wte(tokens.to(self._device))
        return vectors

    def logits(self, inputs: Tensor) -> Tensor:
        """Run GPT-2."""
        logits: Tensor = self.gpt(inputs_embeds=inputs).logits[:, -1]
        return logits


def check_transformers() -> None:
    """Refuse to go on without the transformers package."""
    if find_spec("transformers") is None:
        raise ModelError(
            "This decoder needs the package transformers: "
            "pip install \"napari-maskinversion[captioning]\", or use the decoder 'demo'."
        )


def read_gpt2(path: Path, inside: str) -> dict[str, Tensor]:
    """Read a checkpoint that holds a GPT-2 under the name ``inside``, without stale constants."""
    instead = "save the state_dict() of the decoder"
    state, _ = read_weights(path, instead=instead)
    state = {name: tensor for name, tensor in state.items() if not _STALE.search(name)}
    if f"{inside}.transformer.wte.weight" not in state:
        some = ", ".join(list(state)[:2])
        raise ModelError(
            f"{path} is not a checkpoint of this decoder: no {inside}.transformer.wte.weight "
            f"but {some}, ...; choose the published file."
        )
    return state


def build(
    module: nn.Module, state: Mapping[str, Tensor], *, path: Path, heads: int | None, inside: str
) -> Any:
    """Put a GPT-2 of the checkpoint's sizes into a module, and load all weights strictly."""
    check_transformers()
    from transformers import GPT2Config, GPT2LMHeadModel

    vocabulary, width = _shape(state, f"{inside}.transformer.wte.weight", path)
    positions, _ = _shape(state, f"{inside}.transformer.wpe.weight", path)
    layers = {name.split(".")[3] for name in state if name.startswith(f"{inside}.transformer.h.")}
    count = max(1, width // _HEAD) if heads is None else heads
    if width % count or not layers:
        raise ModelError(
            f"{path} does not fit GPT-2: its width is {width}, its blocks {len(layers)}."
        )
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=positions,
        n_embd=width,
        n_layer=len(layers),
        n_head=count,
    )
    with torch.random.fork_rng(devices=[]):  # its first weights are random, and replaced
        gpt = GPT2LMHeadModel(config)
    setattr(module, inside, gpt)
    fill(module, state, path=path, architecture=f"of GPT-2 with {len(layers)} blocks of {width}")
    table, last = gpt.transformer.wte.weight, gpt.lm_head.weight
    if not table.equal(last):
        raise ModelError(f"{path} is not a GPT-2: its last layer is not its table of tokens.")
    gpt.tie_weights()
    return gpt


def _shape(state: Mapping[str, Tensor], name: str, path: Path) -> tuple[int, int]:
    tensor = state.get(name)
    if tensor is None or tensor.ndim != 2:
        raise ModelError(f"{path} does not fit GPT-2: it has no table {name}.")
    return tensor.shape[0], tensor.shape[1]
