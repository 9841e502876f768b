"""A loaded CLIP model, ready for inversion."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...base.errors import NOT_FINITE, InputError, ModelError, NotEnoughMemoryError
from ..compute.compute_lock import computing
from ..compute.devices import total_memory
from ..compute.matmul import check_precision
from ..compute.onednn_layers import forward_only
from ..encode.preprocessing import normalise, to_rgb_tensor
from ..encode.token_grid import TokenGrid, tokens_along
from ..settings import InversionConfig
from . import openclip
from .checkpoints import fingerprint, versions
from .specs import OPENAI_MEAN, OPENAI_STD, ModelSpec, default_working_resolution
from .towers import tower_of

FloatArray = npt.NDArray[np.float32]
Triple = tuple[float, float, float]

_log = logging.getLogger(__name__)

# The prompt that the authors of LeGrad use.
_EMPTY_PROMPT = "a photo of a"
_TEXT_BATCH = 64
_TEXTS_KEPT = 20_000
_SMALL = 1 << 26  # bytes that every machine has, which need not be asked


class Backbone:
    """A CLIP model ready for inversion. Made by `load_model` or `wrap_open_clip`."""

    def __init__(
        self,
        clip: nn.Module,
        *,
        name: str,
        spec: ModelSpec | None = None,
        mean: Triple = OPENAI_MEAN,
        std: Triple = OPENAI_STD,
        interpolation: str = "bicubic",
        tokenizer: openclip.Tokenizer | None = None,
    ) -> None:
        openclip.check_module(clip)
        self.name = name
        self.spec = spec
        # Path or name, and architecture, if `load_model` has read it.
        self.read_from: tuple[str | Path, str | None] | None = None
        self.clip = clip
        self.mean = mean
        self.std = std
        self.interpolation = interpolation
        module = cast("Any", clip)
        tower = self._tower = tower_of(module.visual)
        self.patch_size = tower.patch_size
        self.native_resolution = tower.native_resolution
        self.working_resolution = default_working_resolution(self.native_resolution)
        self.embed_dim = tower.embed_dim
        self.num_layers = tower.num_layers
        self.logit_scale = float(module.logit_scale.detach().float().exp().reshape(-1)[0])
        self._context_length, self._vocabulary_size = openclip.text_sizes(clip)
        self.tokenizer = tokenizer
        self._texts: OrderedDict[str, FloatArray] = OrderedDict()
        self._versions: tuple[object, ...] | None = None
        self._fingerprint = ""

    def __repr__(self) -> str:
        return f"<Backbone {self.name} on {self.device}>"

    @property
    def device(self) -> torch.device:
        """Device of the image tower's weights."""
        return self._tower.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the image tower's weights."""
        return self._tower.weight.dtype

    def check(self, config: InversionConfig) -> None:
        """Refuse settings that this model or its device cannot work with."""
        config.check(self._tower, str(self.device))
        check_precision(config.precision, self.device)

    def empty_prompt(self) -> FloatArray | None:
        """Return the embedding (e,) of a prompt that names nothing; it corrects SigLIP's maps.

        None, with a warning in the log, if the model has no tokenizer.
        """
        try:
            return cast("FloatArray", self.encode_text([_EMPTY_PROMPT])[0])
        except ModelError as error:
            _log.warning("Maps are not corrected by an empty prompt: %s", error)
            return None

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify name, weights and settings; a key for caches."""
        self._forget_if_changed()
        if not self._fingerprint:
            quick = openclip.uses_quick_gelu(self.clip)
            heads = self._tower.num_heads
            facts = (self.name, quick, heads, self._context_length, self.mean, self.std)
            self._fingerprint = fingerprint(self.clip, *facts)
        return self._fingerprint

    @computing()
    def preprocess(
        self, image: npt.ArrayLike, *, resolution: int | None = None, keep_aspect: bool = True
    ) -> Tensor:
        """Convert an image to the model's input.

        Shapes: image (H, W); returns (1, 3, h, w).
        """
        return self.to_input(image, resolution, keep_aspect=keep_aspect).to(self.device)

    def to_input(
        self, image: npt.ArrayLike, resolution: int | None, *, keep_aspect: bool
    ) -> Tensor:
        """Return what `preprocess` does, on the CPU and without waiting for other work."""
        rgb = to_rgb_tensor(image)
        size = self.input_size(rgb.shape[1], rgb.shape[2], resolution, keep_aspect)
        return normalise(rgb, size, mean=self.mean, std=self.std, interpolation=self.interpolation)

    def input_size(
        self, height: int, width: int, resolution: int | None, keep_aspect: bool
    ) -> tuple[int, int]:
        """Return the pixels (h, w) of the model's input for an image, as `preprocess` makes it."""
        if resolution is None:
            side = self.working_resolution
        else:
            side = resolution
        patch = self.patch_size
        grid = TokenGrid.for_image(
            height, width, patch=patch, resolution=side, keep_aspect=keep_aspect
        )
        self._check_memory(side, 3 * grid.tokens * patch**2)
        return grid.input_size(patch)

    def token_grid(self, size: tuple[int, int]) -> TokenGrid:
        """Return the tokens of an input of ``size`` (h, w) pixels."""
        return self._tower.token_grid(size)

    def nearest_side(self, pixels: float) -> int:
        """Return the side nearest to ``pixels`` that has whole tokens, at least two."""
        return max(2, tokens_along(pixels, self.patch_size)) * self.patch_size

    def check_attention(self, resolution: int) -> None:
        """Refuse a resolution at which the attention of one head is larger than the memory.

        It need not be in memory at once; but nobody has waited for that many tokens yet.
        """
        self._check_memory(resolution, self.token_grid((resolution, resolution)).tokens ** 2)

    def _check_memory(self, resolution: int, numbers: int) -> None:
        if 4 * numbers < _SMALL:
            return
        # What does not fit the device is tried on the CPU.
        most = max(total_memory(self.device), total_memory(torch.device("cpu")))
        if 4 * numbers > most:
            raise NotEnoughMemoryError(
                f"A resolution of {resolution} px needs more than {4 * numbers / 1e9:,.0f} GB of "
                f"memory and this machine has {most / 1e9:,.0f} GB; use a smaller one "
                f"({self.name} usually has {self.working_resolution} px)."
            )

    @computing()
    def embed_images(self, images: Tensor) -> Tensor:
        """Return the embeddings (B, e), float32, not normalised, of images (B, 3, h, w)."""
        return self._tower.embed_images(images)

    @computing()
    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Return one unit vector per text.

        Shapes: returns (T, e).
        """
        given_texts = texts
        texts = list(texts)
        if isinstance(given_texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"Texts must be a list of strings; got {given_texts!r:.100}.")
        self._forget_if_changed()
        new = [text for text in dict.fromkeys(texts) if text not in self._texts]
        for start in range(0, len(new), _TEXT_BATCH):
            batch = new[start : start + _TEXT_BATCH]
            self._texts.update(zip(batch, self._encode_batch(batch), strict=True))
        vectors = [self._texts[text] for text in texts]
        # Afterwards: all texts of one call are there together, however many.
        while len(self._texts) > _TEXTS_KEPT:
            self._texts.popitem(last=False)
        if vectors:
            return np.stack(vectors)
        return np.zeros((0, self.embed_dim), np.float32)

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        with forward_only(self.device):
            tokens = self.tokenize(texts).to(self.device)
            embeddings = openclip.encode_tokens(self.clip, tokens).float()
            unit = nn.functional.normalize(embeddings, dim=-1)
        vectors = unit.cpu().numpy()
        if not np.isfinite(vectors).all():
            raise ModelError(f"{self.name} {NOT_FINITE}")
        return cast("FloatArray", vectors)

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Return the tokens (T, context length) of texts, padded or cut."""
        if self.tokenizer is None:
            self.tokenizer = self._default_tokenizer()
        return self.tokenizer(list(texts))

    def _default_tokenizer(self) -> openclip.Tokenizer:
        if self._vocabulary_size != 49408:
            raise ModelError(
                f"{self.name} has a vocabulary of {self._vocabulary_size} tokens, not CLIP's "
                "49408; pass its own tokenizer: wrap_open_clip(clip, tokenizer=...)."
            )
        return openclip.clip_tokenizer(self._context_length)

    def _forget_if_changed(self) -> None:
        # The caller may train a wrapped module further, or load other weights into it.
        current = versions(self.clip)
        if current != self._versions:
            self._versions = current
            self._texts.clear()
            self._fingerprint = ""
