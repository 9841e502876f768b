"""The prior of lambda-ECLIPSE: from a prompt with regions in it to an image embedding.

Patel et al. 2024, "Lambda-ECLIPSE" (arXiv:2402.05195). diffusers' own prior does not fit its
weights: this one has no time step and a further token, the control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import torch
from diffusers.models.attention import BasicTransformerBlock
from torch import Tensor, nn

from ..base.errors import InputError, ModelError
from ..base.wording import one_line
from ..engine.compute.compute_lock import computing
from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

# Tokens after those of the text: control, text embedding, noise, and the one that is read out.
_ADDED: Final = 4
_HEAD: Final = 32  # values of a head, which no shape tells
_HIDDEN: Final = -10000.0  # what the published module adds to what must not be seen


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


class SubjectPrior(nn.Module):
    """Predicts an image embedding in one pass; its parameters have the published names."""

    def __init__(
        self, width: int = 1280, inner: int = 512, layers: int = 10, length: int = 77
    ) -> None:
        super().__init__()
        self.proj_in = nn.Linear(width, inner)
        self.embedding_proj = nn.Linear(width, inner)
        self.embedding_control = nn.Linear(width, inner)
        self.encoder_hidden_states_proj = nn.Linear(width, inner)
        self.positional_embedding = nn.Parameter(torch.zeros(1, length + _ADDED, inner))
        self.prd_embedding = nn.Parameter(torch.zeros(1, 1, inner))
        self._heads = inner // _HEAD
        self.transformer_blocks = nn.ModuleList(
            BasicTransformerBlock(
                inner, self._heads, _HEAD, activation_fn="gelu", attention_bias=True
            )
            for _ in range(layers)
        )
        self.norm_out = nn.LayerNorm(inner)
        self.proj_to_clip_embeddings = nn.Linear(inner, width)
        # Published with the weights; predictions are used as they are.
        self.clip_mean = nn.Parameter(torch.zeros(1, width))
        self.clip_std = nn.Parameter(torch.zeros(1, width))

    @property
    def width(self) -> int:
        """Values of an image embedding."""
        return self.proj_in.in_features

    @property
    def length(self) -> int:
        """Tokens of a text."""
        return self.positional_embedding.shape[1] - _ADDED

    def forward(
        self, states: Tensor, text: Tensor, used: Tensor, control: Tensor, noise: Tensor
    ) -> Tensor:
        """Predict image embeddings (B, width), not normalised.

        Shapes: states (B, length, width); text, control, noise (B, width); used (B, length), bool.
        """
        tokens = torch.cat(
            [
                self.encoder_hidden_states_proj(states),
                self.embedding_control(control)[:, None],
                self.embedding_proj(text)[:, None],
                self.proj_in(noise)[:, None],
                self.prd_embedding.expand(len(states), -1, -1),
            ],
            dim=1,
        )
        tokens = tokens + self.positional_embedding
        count = tokens.shape[1]
        later = torch.full((count, count), _HIDDEN, device=tokens.device).triu(1)
        padding = nn.functional.pad((~used).to(tokens) * _HIDDEN, (0, _ADDED))
        mask = padding[:, None, :] + later
        mask = mask.repeat_interleave(self._heads, dim=0)
        for block in self.transformer_blocks:
            tokens = block(tokens, attention_mask=mask)
        return cast("Tensor", self.proj_to_clip_embeddings(self.norm_out(tokens)[:, -1]))


def load_prior(file: Path, expected: tuple[int, int]) -> SubjectPrior:
    """Load a prior for a model whose embeddings and texts have so many values and tokens."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = load_file(file)
        inner, width = state["proj_in.weight"].shape
        length = state["positional_embedding"].shape[1] - _ADDED
        blocks = set()
        for name in state:
            if name.startswith("transformer_blocks."):
                blocks.add(name.split(".")[1])
        with torch.device("meta"):  # what the shapes promise is not allocated
            prior = SubjectPrior(width=width, inner=inner, layers=len(blocks), length=length)
        prior.load_state_dict(state, strict=True, assign=True)
    except (SafetensorError, OSError, LookupError, ValueError, RuntimeError) as error:
        reason = one_line(error)[:200].rstrip(".")
        raise ModelError(
            f"{file} is damaged or not the prior of lambda-ECLIPSE ({reason}); put the file of "
            "ECLIPSE-Community/Lambda-ECLIPSE-Prior-v1.0 there."
        ) from None
    if (prior.width, prior.length) != expected:
        raise ModelError(
            f"The prior in {file} is for embeddings of {prior.width} values and texts of "
            f"{prior.length} tokens, and the model has {expected[0]} and {expected[1]}; put the "
            "prior of this model there, or leave the prompt out."
        )
    return prior.float().eval().requires_grad_(False)


def predict(
    prior: SubjectPrior,
    prompt: TextStates,
    subjects: Mapping[tuple[int, ...], FloatArray],
    control: FloatArray,
    seed: int,
) -> FloatArray:
    """Return the image embedding (width,) of a prompt with regions in the place of words.

    Shapes: control (width,).
    """
    states = prompt.states.copy()
    for places, embedding in subjects.items():
        states[list(places)] = embedding
    noise = np.random.default_rng(seed).standard_normal(prior.width, dtype=np.float32)
    rows = (states, prompt.embedding, prompt.used, control, noise)
    with torch.no_grad():
        predicted = prior(*(torch.from_numpy(row)[None] for row in rows))
    return cast("FloatArray", predicted[0].numpy())


def places_of(prompt: TextStates, subject: TextStates, text: str, word: str) -> tuple[int, ...]:
    """Return the places of a word's tokens in a prompt."""
    words = prompt.words
    wanted = subject.words
    starts = []
    for start in range(len(words) - len(wanted) + 1):
        if wanted and words[start : start + len(wanted)] == wanted:
            starts.append(start)
    if not starts:
        raise InputError(
            f"The model does not see the subject {word!r} in the prompt {text!r}, which may be too "
            "long; write it near the beginning."
        )
    # The first token is the start of the text.
    places = []
    for start in starts:
        for place in range(len(wanted)):
            places.append(1 + start + place)
    return tuple(places)
