"""The optimisation loop: embeddings whose explainability maps match masks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.deprecation import warn_renamed
from ..explain.protocol import ExplainabilityMap
from ..settings import InversionConfig
from .adamw import AdamW
from .dice import MaskTargets, upsample_heatmap, upsample_maps

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StepState:
    """Progress of a running inversion.

    Attributes
    ----------
    step, steps : int
        Updates finished, updates in total.
    grid_maps : callable or None
        Returns a copy of the current maps, (N, grid_h, grid_w) float32; None before the first step
        is complete.
    embeddings : callable or None
        Returns a copy of the embeddings, (N, e) float32, after ``step`` updates. With ``fast``,
        estimated ones may be replaced by exact ones later.
    """

    step: int
    steps: int
    grid_maps: Callable[[], FloatArray] | None
    embeddings: Callable[[], FloatArray] | None = None


@dataclass(frozen=True, slots=True)
class InversionResult:
    """Embeddings of N masks on one image.

    Attributes
    ----------
    raw_embeddings : ndarray, shape (N, e), float32
        As optimised, not normalised. `embeddings` has them at L2 norm 1.
    grid_maps : ndarray, shape (N, grid_h, grid_w), float32
        Maps of these embeddings at token resolution, not stretched; >= 0 except for GradCAM
        without its ReLU.
    losses : ndarray, shape (N, steps + 1), float32
        Column k is the loss before update k; the last column is the loss of these embeddings.
    mask_ious : ndarray, shape (N,), float32 in 0..1
        Intersection over union of the mask and the heatmap above 0.5, at the model's input size.
    low_resolution : ndarray, shape (N,), bool
        The mask is smaller than one token.
    input_size, mask_size : tuple of int
        Pixels (H, W) of the model's input and of the masks' plane.
    last_step_grid_maps : ndarray or None
        Maps before the last update, with ``keep_last_step_heatmaps``.
    """

    raw_embeddings: FloatArray
    grid_maps: FloatArray
    losses: FloatArray
    mask_ious: FloatArray
    low_resolution: npt.NDArray[np.bool_]
    input_size: tuple[int, int]
    mask_size: tuple[int, int]
    last_step_grid_maps: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.raw_embeddings)

    def __repr__(self) -> str:
        count, size = self.raw_embeddings.shape
        return f"<InversionResult: {count} masks, embeddings of {size} values>"

    @property
    def embeddings(self) -> FloatArray:
        """Embeddings (N, e), float32, of L2 norm 1."""
        norms = np.linalg.norm(self.raw_embeddings, axis=1, keepdims=True)
        return np.asarray(self.raw_embeddings / np.maximum(norms, 1e-12), dtype=np.float32)

    @property
    def unit_embeddings(self) -> FloatArray:
        """Return `embeddings`; deprecated."""
        warn_renamed("unit_embeddings", "embeddings")
        return self.embeddings

    def rank(self, texts: FloatArray) -> npt.NDArray[np.intp]:
        """Return the indices (N, T) of texts for each mask, the most similar first.

        Parameters
        ----------
        texts : ndarray, shape (T, e)
            As the model's `encode_text` returns them.
        """
        return np.argsort(-(self.embeddings @ texts.T), axis=1, kind="stable")

    def heatmap(self, index: int) -> FloatArray:
        """Heatmap (H, W) of one mask at the masks' size, float32 in 0..1."""
        return upsample_heatmap(self.grid_maps[index], self.input_size, self.mask_size)

    @property
    def heatmaps(self) -> FloatArray:
        """Heatmaps (N, H, W) of the returned embeddings, float32 in 0..1; not cached."""
        return self._all(self.grid_maps)

    @property
    def last_step_heatmaps(self) -> FloatArray | None:
        """Heatmaps (N, H, W) before the last update, as the published code returns them.

        None unless ``keep_last_step_heatmaps`` was set.
        """
        if self.last_step_grid_maps is None:
            return None
        return self._all(self.last_step_grid_maps)

    def _all(self, grid_maps: FloatArray) -> FloatArray:
        grid = (int(grid_maps.shape[1]), int(grid_maps.shape[2]))
        tokens = torch.from_numpy(grid_maps).reshape(len(grid_maps), -1)
        heat = upsample_maps(tokens, grid, self.input_size, self.mask_size)
        return np.asarray(heat.numpy(), dtype=np.float32)


def invert_steps(
    exact: ExplainabilityMap,
    targets: MaskTargets,
    image_embedding: Tensor,
    config: InversionConfig,
    mask_size: tuple[int, int],
) -> Generator[StepState, None, InversionResult]:
    """Optimise one embedding per mask; yield after each group of masks.

    Masks are independent; groups exist only to bound memory. AdamW has PyTorch's betas and epsilon
    (the published setting).

    Parameters
    ----------
    exact : ExplainabilityMap
        The map of one image that is matched with the masks.
    targets : MaskTargets
    image_embedding : Tensor, shape (e,)
        Start of every embedding; ``alpha`` pulls towards it.
    config : InversionConfig
    mask_size : tuple of int
        Pixels (H, W) of the masks' plane.

    Returns
    -------
    InversionResult
    """
    count = len(targets.weights)
    start = image_embedding.detach()
    embeddings = start.expand(count, -1).clone()
    optimizer = AdamW(
        embeddings, learning_rate=config.learning_rate, weight_decay=config.weight_decay
    )
    maps = start.new_zeros(count, targets.weights.shape[1])
    losses = start.new_zeros(count, config.steps + 1)
    gradient = torch.zeros_like(embeddings)
    last_maps: Tensor | None = None
    for step in range(config.steps + 1):
        final = step == config.steps
        if final and config.keep_last_step_heatmaps:
            last_maps = maps.clone()
        # All embeddings start alike, so the first map and its sign pattern serve every mask.
        shared = exact.forward_start() if step == 0 else None
        for first in range(0, count, exact.group_size):
            group = slice(first, min(first + exact.group_size, count))
            with torch.no_grad():
                current = embeddings[group]
                if shared is None:
                    maps[group] = exact.forward(current)
                else:
                    maps[group] = shared.expand(len(current), -1)
                dice, map_gradient = targets.dice(maps[group], group)
                penalty, penalty_gradient = regulariser(current, start, config.alpha)
                losses[group, step] = dice + penalty
                if not final:
                    gradient[group] = exact.vjp(map_gradient) + penalty_gradient
            yield step_state(step, config, maps, embeddings, targets.grid)
        if not final:
            optimizer.step(gradient)
    return collect_result(embeddings, maps, losses, targets, mask_size, last_maps)


@torch.no_grad()
def collect_result(
    embeddings: Tensor,
    maps: Tensor,
    losses: Tensor,
    targets: MaskTargets,
    mask_size: tuple[int, int],
    last_maps: Tensor | None,
) -> InversionResult:
    """Return the result of embeddings (N, e), maps (N, tokens) and losses (N, steps + 1)."""
    lengths = embeddings.norm(dim=1, keepdim=True)
    return InversionResult(
        raw_embeddings=_numpy(embeddings),
        # Maps scale with the embedding's length; results hold those of the unit embedding.
        grid_maps=_grid(maps / lengths, targets.grid),
        losses=_numpy(losses),
        mask_ious=targets.overlaps(maps),
        low_resolution=targets.low_resolution,
        input_size=targets.input_size,
        mask_size=mask_size,
        last_step_grid_maps=None if last_maps is None else _grid(last_maps, targets.grid),
    )


def step_state(
    step: int, config: InversionConfig, maps: Tensor, embeddings: Tensor, grid: tuple[int, int]
) -> StepState:
    """Return the progress after ``step`` updates; arrays are copied only when asked for."""
    copy_maps = (lambda: _grid(maps.clone(), grid)) if step else None
    return StepState(step, config.steps, copy_maps, partial(_numpy_copy, embeddings))


def regulariser(embeddings: Tensor, image: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Return ``alpha * (1 - cos(embedding, image embedding))`` (M,) and its gradient (M, e)."""
    lengths = embeddings.norm(dim=1, keepdim=True).clamp_min(1e-12)
    unit, target = embeddings / lengths, image / image.norm().clamp_min(1e-12)
    cosine = unit @ target
    gradient = -alpha * (target - cosine[:, None] * unit) / lengths
    return alpha * (1.0 - cosine), gradient


def _grid(maps: Tensor, grid: tuple[int, int]) -> FloatArray:
    return _numpy(maps).reshape(len(maps), *grid)


def _numpy_copy(tensor: Tensor) -> FloatArray:
    return _numpy(tensor).copy()


def _numpy(tensor: Tensor) -> FloatArray:
    return np.asarray(tensor.detach().float().cpu().numpy(), dtype=np.float32)
