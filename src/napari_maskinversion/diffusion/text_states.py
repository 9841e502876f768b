"""What a text tower computes for each token of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..base.errors import ModelError
from ..engine.compute.compute_lock import computing
from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TextStates:
    """A text in the text tower of CLIP."""

    ids: tuple[int, ...]  # Tokens, with start, end and padding
    states: FloatArray  # (tokens, width), float32. After the last LayerNorm.
    embedding: FloatArray  # (e,), float32. Of the whole text, not normalised.

    @property
    def end(self) -> int:
        """Place of the token that ends the text; it has the largest number."""
        return self.ids.index(max(self.ids))

    @property
    def words(self) -> tuple[int, ...]:
        """Tokens without start, end and padding."""
        return self.ids[1 : self.end]

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Whether each token is text, start and end included."""
        return np.arange(len(self.ids)) <= self.end


@computing()
def text_states(model: Backbone, text: str) -> TextStates:
    """Return the states of a text's tokens."""
    clip = cast("Any", model.clip)
    norm = getattr(clip, "ln_final", None)
    if norm is None:
        raise ModelError(
            f"{model.name} has another text tower than CLIP's own; prompts need that one."
        )
    captured: list[Tensor] = []
    tokens = model.tokenize([text]).to(model.device)
    hook = norm.register_forward_hook(lambda _module, _inputs, output: captured.append(output))
    try:
        embedding = clip.encode_text(tokens)
    finally:
        hook.remove()
    return TextStates(
        ids=tuple(tokens[0].tolist()),
        states=_numbers(captured[-1][0]),
        embedding=_numbers(embedding[0]),
    )


def _numbers(values: Tensor) -> FloatArray:
    return cast("FloatArray", values.detach().to("cpu", torch.float32).numpy())
