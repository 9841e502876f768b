"""One image, encoded once: everything that an inversion needs of it.

Symbols: n tokens ([CLS] included), d the transformer's width, e the joint dimension, h heads, m the
width of the MLP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from ...base.errors import InputError
from ..compute.devices import on_cpu
from ..compute.matmul import SharedFactor, multiply
from .attention import AttentionInputs, AttentionLayer
from .token_grid import TokenGrid

# An open_clip VisionTransformer with a class token; open_clip carries no types.
Tower = Any
Result = TypeVar("Result")
_QUICK: Final = 1.702  # QuickGELU is x * sigmoid(1.702 x)


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """Products of one transformer block's weights."""

    out: Tensor  # Wo, the attention's output projection, with any layer scale
    down: Tensor  # W2, the MLP's second matrix, with any layer scale
    mixed: Tensor  # W1 with the LayerNorm's gain and centring and with Wo folded in
    # These with ``mixed`` in other types
    stored: dict[torch.dtype, BlockWeights] = field(default_factory=dict)
    by_mixed: SharedFactor = field(init=False)  # Multiply by ``mixed`` and by its transpose
    by_mixed_t: SharedFactor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_mixed", SharedFactor(self.mixed))
        object.__setattr__(self, "by_mixed_t", SharedFactor(self.mixed.T))

    def stored_as(self, dtype: torch.dtype) -> BlockWeights:
        """Return these with ``mixed`` in a type; converted when first asked for."""
        if dtype not in self.stored:
            self.stored[dtype] = replace(self, mixed=self.mixed.to(dtype))
        return self.stored[dtype]


# What follows from weights, by the module that has them: what tells the weights, and the result.
_OF_WEIGHTS: Final[WeakKeyDictionary[nn.Module, tuple[Any, Any]]] = WeakKeyDictionary()


def _of_weights(
    module: nn.Module, weights: Sequence[Tensor], key: Any, make: Callable[[], Result]
) -> Result:
    """Return what ``make`` makes of a module's weights; again only for another key or weights."""
    if any(map(Tensor.is_inference, weights)):  # they count no changes
        return make()
    state = key, [weight._version for weight in weights], memory_of(weights)
    kept_state, kept = _OF_WEIGHTS.get(module, (None, None))
    if state == kept_state:
        return cast("Result", kept)
    product = make()
    _OF_WEIGHTS[module] = state, product
    return product


def memory_of(tensors: Iterable[Tensor]) -> list[tuple[StorageWeakRef, int | torch.SymInt]]:
    """Return what tells the memory of tensors from any other, also from what lies there later.

    It does not hold that memory: weights that are moved off a GPU leave it.
    """
    parts = [(tensor.untyped_storage(), tensor.storage_offset()) for tensor in tensors]
    return [(StorageWeakRef(storage), start) for storage, start in parts]  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, eq=False)
class LayerConstants:
    """What LeGrad needs of one transformer layer for one image.

    The gradient of the score with respect to the attention is ``<p_i, v_j>`` per head with

        p_i = u Wo + slope_i * (u W2) @ mixed - (bend_i . (u W2)) * offset_i

    linear in ``u = embedding @ jacobian`` (attention gradient of arXiv 2407.20034, written out).
    Those of several images have one more axis in front, but for the weights.
    """

    values: Tensor  # Value vectors v of the attention
    # d f / d (mean token), divided by n; f is the unit embedding of the mean token
    jacobian: Tensor
    weights: BlockWeights
    # act'(a_i) / std_i. With ``coefficients``: (r, m), rows whose combinations these are.
    slope: Tensor
    bend: Tensor  # The part of the LayerNorm's backward along the normalised token
    offset: Tensor  # Normalised tokens times Wo
    coefficients: Tensor | None = None  # Low-rank slopes: each token's are ``coefficients @ slope``
    inputs: AttentionInputs | None = None  # Needed by maps other than LeGrad

    def stored_as(self, dtype: torch.dtype, scale: Tensor | float) -> LayerConstants:
        """Return a copy for a map that is ``scale`` times as large, in half precision.

        Only factors of large products are rounded. Sums over tokens and units of the MLP stay as
        precise as ``jacobian``.
        """
        coefficients = self.coefficients
        return replace(
            self,
            jacobian=self.jacobian * scale,
            values=self.values.to(dtype),
            weights=self.weights.stored_as(dtype),
            slope=self.slope.to(dtype),
            offset=self.offset.to(dtype),
            coefficients=None if coefficients is None else coefficients.to(dtype),
        )

    def of(self, images: slice | Tensor) -> LayerConstants:
        """Return the constants of some of several images."""
        return replace(self, **{name: getattr(self, name)[images] for name in _OF_AN_IMAGE})

    def tensors(self) -> list[Tensor]:
        """Return the tensors that depend on the image; the others depend on the model alone."""
        if self.inputs is None:
            tokens = []
        else:
            tokens = [self.inputs.tokens]
        return [*(getattr(self, name) for name in _OF_AN_IMAGE), *tokens]

    def own(self) -> LayerConstants:
        """Return a copy with memory of its own."""
        inputs = self.inputs
        if inputs is not None:
            inputs = replace(inputs, tokens=inputs.tokens.clone())
        copies = {name: getattr(self, name).clone() for name in _OF_AN_IMAGE}
        return replace(self, inputs=inputs, **copies)


_OF_AN_IMAGE: Final = ("values", "jacobian", "slope", "bend", "offset")


@dataclass(frozen=True, slots=True)
class ImageEncoding:
    """Constants of one image on one model, or of several of one size; read only."""

    embedding: Tensor  # The image embedding (e,), not normalised; of several images (I, e)
    layers: tuple[LayerConstants, ...]  # The explained layers, in the model's order
    grid: TokenGrid
    input_size: tuple[int, int]  # Pixels (H, W) of the tensor the model saw
    # Instead of ``layers`` for towers other than open_clip's class-token ViT
    general: tuple[AttentionLayer, ...] = ()
    # Embedding of an "empty" prompt, for towers whose maps are corrected by its map
    empty: Tensor | None = None

    def last(self, layers: int) -> ImageEncoding:
        """Return the same encoding with only the last explained layers."""
        return replace(self, layers=self.layers[-layers:], general=self.general[-layers:])

    def of(self, images: Tensor) -> ImageEncoding:
        """Return the encoding of some of several images, in any order and number."""
        layers = tuple(layer.of(images) for layer in self.layers)
        return replace(self, embedding=self.embedding[images], layers=layers)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that depend on the image."""
        tensors = [self.embedding]
        for layer in self.layers:
            tensors += layer.tensors()
        return tensors

    def own(self) -> ImageEncoding:
        """Return a copy with memory of its own."""
        layers = tuple(layer.own() for layer in self.layers)
        return replace(self, embedding=self.embedding.clone(), layers=layers)


def check_image(image: Tensor, patch: int, images: int = 1) -> TokenGrid:
    """Return the tokens of an image tensor (images, 3, H, W); refuse one that is none."""
    if image.ndim != 4 or image.shape[:2] != (images, 3):
        raise InputError(f"An image tensor must be (1, 3, H, W); got {tuple(image.shape)}.")
    height, width = image.shape[2:]
    if height < patch or width < patch or height % patch or width % patch:
        raise InputError(
            f"The image tensor is {height} x {width} px; both sides must be multiples of the "
            f"model's patch of {patch} x {patch} px."
        )
    if not bool(torch.isfinite(image).all()):
        raise InputError("The image tensor holds NaN or infinite values; replace them first.")
    return TokenGrid.of_input((height, width), patch)


def working(tensor: Tensor) -> Tensor:
    """Return a constant in the precision of an inversion: float64, else float32."""
    # Half precision is for forward passes; small gradients need float32.
    tensor = tensor.detach()
    if tensor.dtype == torch.float64:
        return tensor
    return tensor.float()


def embed(visual: Tower, image: Tensor, grid: TokenGrid, added: Tensor | float = 0.0) -> Tensor:
    """Return the tokens (B, n, d) that enter the first block, with ``added`` to the patches."""
    patches = visual.conv1(image.to(visual.conv1.weight.dtype)) + added
    patches = patches.flatten(2).transpose(1, 2)
    cls = visual.class_embedding.to(patches.dtype).expand(len(patches), 1, -1)
    tokens = torch.cat([cls, patches], dim=1) + positions_of(visual, grid).to(patches.dtype)
    embedded: Tensor = visual.ln_pre(tokens)
    return embedded


def positions_of(visual: Tower, grid: TokenGrid) -> Tensor:
    """Return the positional embeddings of a tower for a grid, kept until another one is asked for.

    They are resampled on the CPU, for which a GPU would wait.
    """
    weight = visual.positional_embedding
    native = tuple(visual.grid_size)
    resample = partial(resample_positions, weight.detach(), native, grid)
    if native == tuple(grid):
        positions: Tensor = weight
        return positions
    return _of_weights(visual, [weight], grid, resample)


def resample_positions(
    positions: Tensor,
    native: tuple[int, int],
    grid: tuple[int, int],
    prefix: int = 1,
    *,
    mode: str = "bicubic",
    antialias: bool = True,
) -> Tensor:
    """Resample positional embeddings (prefix + native tokens, d) to another grid.

    On a copy; the first ``prefix`` stay. If the grids agree, they are returned unchanged.
    """
    if tuple(native) == tuple(grid):
        return positions
    first = positions[:prefix]
    places = positions[prefix:]
    image = places.float().reshape(1, *native, -1).permute(0, 3, 1, 2)
    resize = partial(functional.interpolate, size=grid, mode=mode, antialias=antialias)
    return torch.cat([first, on_cpu(resize, image)[0].flatten(1).T.to(first.dtype)])


def explain_block(visual: Tower, block: Any, tokens: Tensor) -> tuple[Tensor, LayerConstants]:
    """Run one block (I, n, d); return its tokens and the constants of its LeGrad map."""
    norm = block.ln_2
    mlp = block.mlp
    (images, count, _) = tokens.shape

    def by_image(rows: Tensor) -> Tensor:
        if images == 1:
            return rows
        return rows.view(images, count, -1)

    normed = block.ln_1(tokens)
    attended = block.attention(q_x=normed)
    mixed_tokens = tokens + block.ls_1(attended)
    inputs = AttentionInputs.of(block, working(normed.flatten(0, 1)))
    residual = working(mixed_tokens.flatten(0, 1))
    gain = working(norm.weight)
    shift = working(norm.bias)
    first = working(mlp.c_fc.weight)
    weights = block_weights(block)
    mean = residual.mean(-1, keepdim=True)
    std = (residual.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    unit = (residual - mean) / std
    # What the normalised token alone contributes to the pre-activations.
    varying = multiply(unit * gain, first.T)
    pre = varying + (shift @ first.T + working(mlp.c_fc.bias))
    active, slope = _activate(mlp.gelu, pre)
    slope /= std
    added = block.ls_2(mlp.c_proj(active.to(tokens.dtype)))
    result = mixed_tokens + added.view_as(mixed_tokens)
    values = inputs.values()
    seen = working(result)
    if images > 1:
        values = values.reshape(len(values), images, count, -1).transpose(0, 1)
    jacobian = partial(_mean_token_jacobian, visual)
    constants = LayerConstants(
        values=values.contiguous(),
        jacobian=jacobian(seen[0]) if images == 1 else torch.vmap(jacobian)(seen),
        weights=weights,
        slope=by_image(slope),
        bend=by_image((slope * varying).div_(tokens.shape[-1])),
        offset=by_image(multiply(unit, weights.out)),
        inputs=inputs if images == 1 else None,
    )
    return result, constants


def _scaled(weight: Tensor, scale: Tensor | None) -> Tensor:
    """Return a weight with the factors of its outputs."""
    if scale is None:
        return 1.0 * working(weight)
    return working(scale)[:, None] * working(weight)


def block_weights(block: Any) -> BlockWeights:
    """Return the products of a block's weights, made once for each model."""
    attn = block.attn
    norm = block.ln_2
    mlp = block.mlp
    out_scale = getattr(block.ls_1, "gamma", None)
    down_scale = getattr(block.ls_2, "gamma", None)

    def make() -> BlockWeights:
        out = _scaled(attn.out_proj.weight, out_scale)
        down = _scaled(mlp.c_proj.weight, down_scale)
        gained = working(mlp.c_fc.weight) * working(norm.weight)
        mixed = multiply(out.T, (gained - gained.mean(-1, keepdim=True)).T).T
        return BlockWeights(out, down.contiguous(), mixed)

    sources = [attn.out_proj.weight, mlp.c_proj.weight, norm.weight, mlp.c_fc.weight]
    sources += [scale for scale in (out_scale, down_scale) if scale is not None]
    return _of_weights(block, sources, "products", make)


def _activate(activation: nn.Module, pre: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and derivative of GELU or of QuickGELU; towers with others are refused."""
    if isinstance(activation, nn.GELU):
        backward = torch.ops.aten.gelu_backward
        slope = backward(torch.ones_like(pre), pre, approximate=activation.approximate)
        return activation(pre), slope
    gate = torch.sigmoid(_QUICK * pre)
    active = pre * gate
    return active, gate * (1 + _QUICK * (pre - active))


def _mean_token_jacobian(visual: Tower, tokens: Tensor) -> Tensor:
    """Return the Jacobian (e, d), divided by n, of normalise(ln_post(mean token) @ proj)."""
    norm = visual.ln_post
    gain = working(norm.weight)
    shift = working(norm.bias)
    proj = working(visual.proj)
    mean = tokens.mean(0)
    std = (mean.var(unbiased=False) + norm.eps).sqrt()
    unit = (mean - mean.mean()) / std
    feature = (unit * gain + shift) @ proj
    length = feature.norm()
    direction = feature / length
    # Backward through the normalisation, proj and the LayerNorm, one row per joint dimension.
    rows = proj
    if getattr(visual, "pool_type", "tok") == "tok":
        rows = proj - (proj @ direction)[:, None] * direction
    # A model that pools by the mean embeds the mean token almost as the image. The cosine to that
    # has no gradient where an inversion starts, so the score is the product over the length.
    rows = rows.T / length * gain
    rows = rows - rows.mean(-1, keepdim=True) - unit * (rows @ unit)[:, None] / len(unit)
    jacobian: Tensor = rows / std / len(tokens)
    return jacobian
