"""The optimisation loop: embeddings whose explainability maps match masks."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.errors import NOT_FINITE, ModelError
from ...base.progress import STEP, Tick, tell
from ..explain import interpolation
from ..explain.protocol import ExplainabilityMap
from ..explain.routes import slices
from ..settings import InversionConfig
from .dice import MaskTargets

FloatArray = npt.NDArray[np.float32]

# PyTorch's defaults, as in the published setting.
BETAS: Final = (0.9, 0.999)
EPSILON: Final = 1e-8
# What `Descent` holds of each mask.
STATE: Final = ("embeddings", "gradient", "_mean", "_square", "maps", "loss", "losses")
# What a result holds of each mask.
_ROWS: Final = ("raw_embeddings", "grid_maps", "losses", "mask_ious", "low_resolution")


@dataclass(frozen=True, slots=True)
class StepState(Tick):
    """Updates of a running inversion."""

    # Returns a copy of the current maps, (N, grid_h, grid_w) float32; None before the first step is
    # complete
    grid_maps: Callable[[], FloatArray] | None = None
    # Returns a copy of the embeddings, (N, e) float32, after ``done`` updates. With ``fast``,
    # estimated ones may be replaced by exact ones later.
    embeddings: Callable[[], FloatArray] | None = None


@dataclass(frozen=True, slots=True)
class InversionResult:
    """Embeddings of N masks on one image.

    Attributes
    ----------
    raw_embeddings : ndarray, shape (N, e), float32
        As optimised, not normalised. `embeddings` has them at L2 norm 1.
    grid_maps : ndarray, shape (N, grid_h, grid_w), float32
        Maps of these embeddings at token resolution, not normalised; >= 0 except for GradCAM
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
    route : str
        How LeGrad was computed: "direct", "fast, direct, 2 of 16 exact" (failed the checks)...
    """

    raw_embeddings: FloatArray
    grid_maps: FloatArray
    losses: FloatArray
    mask_ious: FloatArray
    low_resolution: npt.NDArray[np.bool_]
    input_size: tuple[int, int]
    mask_size: tuple[int, int]
    last_step_grid_maps: FloatArray | None = None
    route: str = ""

    def __post_init__(self) -> None:
        if not np.isfinite(self.raw_embeddings).all():
            raise ModelError(f"The model {NOT_FINITE}")

    def __len__(self) -> int:
        return len(self.raw_embeddings)

    def part(self, masks: slice, mask_size: tuple[int, int]) -> InversionResult:
        """Return the result of some of the masks, on a plane of this size."""
        last = self.last_step_grid_maps
        return replace(
            self,
            **{name: getattr(self, name)[masks] for name in _ROWS},
            last_step_grid_maps=None if last is None else last[masks],
            mask_size=mask_size,
        )

    def __repr__(self) -> str:
        count, size = self.raw_embeddings.shape
        return f"<InversionResult: {count} masks, embeddings of {size} values>"

    @property
    def embeddings(self) -> FloatArray:
        """Embeddings (N, e), float32, of L2 norm 1."""
        norms = np.linalg.norm(self.raw_embeddings, axis=1, keepdims=True)
        return np.asarray(self.raw_embeddings / np.maximum(norms, 1e-12), dtype=np.float32)

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
        return interpolation.heatmap(self.grid_maps[index], self.input_size, self.mask_size)

    @property
    def heatmaps(self) -> FloatArray:
        """Heatmaps (N, H, W) of the returned embeddings, float32 in 0..1; not cached."""
        return interpolation.heatmap(self.grid_maps, self.input_size, self.mask_size)

    @property
    def last_step_heatmaps(self) -> FloatArray | None:
        """Heatmaps (N, H, W) before the last update, as the published code returns them.

        None unless ``keep_last_step_heatmaps`` was set.
        """
        last = self.last_step_grid_maps
        if last is None:
            return None
        return interpolation.heatmap(last, self.input_size, self.mask_size)


class Descent:
    """AdamW on one embedding per mask: state and records of N masks at one step.

    Adam with decoupled weight decay (Loshchilov and Hutter 2019), with PyTorch's betas and epsilon
    as in the published setting; the same numbers as PyTorch's, which would import its compiler.

    What `adam` and `record` need of the step's number lies on the device, so that they are the same
    work in each step: see `graphs`.

    Shapes: start (e,), or (N, e) of masks on images of their own; embeddings, gradient (N, e);
    maps (N, tokens); loss (N,); losses (N, steps + 1).
    """

    def __init__(self, targets: MaskTargets, start: Tensor, config: InversionConfig) -> None:
        self.targets = targets
        self.start = start.detach().clone()
        self.config = config
        count, tokens = targets.weights.shape
        self.step = 0
        self.embeddings = self.start.expand(count, -1).clone()
        self.gradient = torch.zeros_like(self.embeddings)
        self._mean = torch.zeros_like(self.gradient)
        self._square = torch.zeros_like(self.gradient)
        self.maps = start.new_zeros(count, tokens)
        self.loss = start.new_zeros(count)
        self.losses = start.new_zeros(count, config.steps + 1)
        self.last_step_maps: Tensor | None = None
        # Of each step: minus the rate, and what the root of the mean square is divided by.
        rates = []
        for step in range(1, config.steps + 1):
            rates.append(
                (-config.learning_rate / (1 - BETAS[0] ** step), (1 - BETAS[1] ** step) ** 0.5)
            )
        self._rates = torch.tensor(rates, dtype=torch.float64).to(self.start)
        self._step_factors = self._rates[0].clone()

    @torch.no_grad()
    def record(self, maps: Tensor, masks: slice | Tensor) -> Tensor:
        """Store maps and losses of these masks; return the gradient of Dice by the maps."""
        self.maps[masks] = maps
        loss, map_gradient = self.targets.dice(maps, masks)
        if self.config.alpha:
            if self.start.ndim == 1:
                image = self.start
            else:
                image = self.start[masks]
            penalty, self.gradient[masks] = regulariser(
                self.embeddings[masks], image, self.config.alpha
            )
            loss = loss + penalty
        else:
            self.gradient[masks] = 0.0
        self.loss[masks] = loss
        return map_gradient

    def update(self) -> None:
        """Take one step of AdamW with `gradient`."""
        self.advance()
        self.adam()

    def advance(self) -> None:
        """Continue with the next step: keep the loss and the maps, and take the next rates."""
        self.losses[:, self.step] = self.loss
        self._step_factors.copy_(self._rates[self.step])
        self.step += 1
        if self.step == self.config.steps and self.config.keep_last_step_heatmaps:
            self.last_step_maps = self.maps.clone()

    @torch.no_grad()
    def adam(self) -> None:
        """Update the embeddings with `gradient` and the rates of this step."""
        config = self.config
        (first, second) = BETAS
        self._mean.lerp_(self.gradient, 1 - first)
        self._square.mul_(second).addcmul_(self.gradient, self.gradient, value=1 - second)
        length = (self._square.sqrt() / self._step_factors[1]).add_(EPSILON)
        if config.weight_decay:
            self.embeddings.mul_(1 - config.learning_rate * config.weight_decay)
        self.embeddings.addcdiv_(self._mean * self._step_factors[0], length)

    def part(self, masks: Tensor) -> Descent:
        """Return a copy of these masks' state."""
        part = copy(self)
        part.targets = self.targets.part(masks)
        for name in STATE:
            setattr(part, name, getattr(self, name)[masks])
        return part

    def adopt(self, masks: Tensor, part: Descent) -> None:
        """Copy a part's state back into these masks."""
        for name in STATE:
            getattr(self, name)[masks] = getattr(part, name)
        if self.last_step_maps is not None and part.last_step_maps is not None:
            self.last_step_maps[masks] = part.last_step_maps

    def load(self, other: Descent) -> None:
        """Copy the numbers of another descent of as many masks, and be at its step."""
        for name in (*STATE, "start"):
            getattr(self, name).copy_(getattr(other, name))
        self.step = other.step
        self.last_step_maps = other.last_step_maps
        self.targets.load(other.targets)

    def state(self) -> StepState:
        """Return the progress; arrays are copied only when asked for."""
        maps = self.maps
        grid = self.targets.grid
        embeddings = self.embeddings
        return StepState(
            STEP,
            self.step,
            self.config.steps,
            grid_maps=(lambda: to_numpy(maps.clone()).reshape(-1, *grid)) if self.step else None,
            embeddings=lambda: to_numpy(embeddings.clone()),
        )

    @torch.no_grad()
    def result(self, mask_size: tuple[int, int], route: str = "") -> InversionResult:
        """Return the result; ``mask_size`` is (H, W) of the masks' plane."""
        targets = self.targets
        last = self.last_step_maps
        self.losses[:, self.step] = self.loss
        lengths = self.embeddings.norm(dim=1, keepdim=True)
        parts = [
            self.embeddings,
            # Maps scale with the embedding's length; results hold those of the unit embedding.
            self.maps / lengths,
            self.losses,
            targets.overlaps(self.maps)[:, None],
            *([] if last is None else [last]),
        ]
        # In one piece: each copy waits for the device.
        ends = np.cumsum([part.shape[1] for part in parts])[:-1]
        arrays = np.split(
            to_numpy(torch.cat([part.float() for part in parts], dim=1)), ends, axis=1
        )
        raw, grid_maps, losses, overlaps, *last_maps = (np.ascontiguousarray(a) for a in arrays)
        return InversionResult(
            raw_embeddings=raw,
            grid_maps=grid_maps.reshape(-1, *targets.grid),
            losses=losses,
            mask_ious=overlaps[:, 0],
            low_resolution=targets.low_resolution,
            input_size=targets.input_size,
            mask_size=mask_size,
            last_step_grid_maps=last_maps[0].reshape(-1, *targets.grid) if last_maps else None,
            route=route,
        )


def descend(
    exact: ExplainabilityMap, descent: Descent, state: Callable[[], StepState] | None = None
) -> None:
    """Take all steps that are left, with the exact map; tell ``state()`` after each group of masks.

    Masks are independent; groups exist only to bound memory.
    """
    steps = descent.config.steps
    state = state or descent.state
    # One evaluation more than steps: results hold maps and losses of the last embeddings.
    while True:
        for masks in slices(descent.maps.shape[0], exact.group_size):
            evaluate(exact, descent, masks)
            tell(state())
        if descent.step == steps:
            return
        descent.advance()
        descent.adam()


@torch.no_grad()
def evaluate(exact: ExplainabilityMap, descent: Descent, masks: slice) -> None:
    """Find maps, losses and gradients of a group of masks."""
    embeddings = descent.embeddings[masks]
    if descent.step == 0:
        # All embeddings start alike, so one map and its sign pattern serve the group.
        # Not all groups: another thread may use the map between two of them.
        maps = exact.forward_start().expand(embeddings.shape[0], -1)
    else:
        maps = exact.forward(embeddings)
    map_gradient = descent.record(maps, masks)
    if descent.step < descent.config.steps:
        descent.gradient[masks].add_(exact.vjp(map_gradient))


def regulariser(embeddings: Tensor, image: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Return ``alpha * (1 - cos(embedding, image embedding))`` (M,) and its gradient (M, e)."""
    lengths = embeddings.norm(dim=1, keepdim=True).clamp_min(1e-12)
    unit = embeddings / lengths
    target = image / image.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    if image.ndim == 1:
        cosine = unit @ target
    else:
        cosine = (unit * target).sum(1)
    gradient = -alpha * (target - cosine[:, None] * unit) / lengths
    return alpha * (1.0 - cosine), gradient


def to_numpy(tensor: Tensor) -> FloatArray:
    """Return an array of a tensor, float32."""
    return np.asarray(tensor.detach().float().cpu().numpy(), dtype=np.float32)
