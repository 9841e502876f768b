"""Settings of one inversion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

from .errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class InversionConfig:
    """How masks are inverted. The defaults are the paper's (arXiv 2407.20034).

    Parameters
    ----------
    steps : int
        AdamW updates per mask, K in the paper; at least 1.
    learning_rate : float
        Step size of AdamW; above 0.
    alpha : float
        Weight of the regulariser ``1 - cos(embedding, image embedding)``; 0 looks at the region
        alone, about 5 keeps its context.
    weight_decay : float
        AdamW's decoupled weight decay; 0 or more.
    layers : int
        How many of the last transformer layers are explained; at least 1.
    explainer : {"legrad"}
        The explainability map that is matched with the mask.
    query_stride : int or "auto"
        Every so-many-th row and column of query tokens is averaged over in the later steps; 1 is
        exact. "auto" takes all of them but makes their vectors from fewer products, as closely as
        was measured to keep the embedding. What is returned (maps, overlaps, the last loss) is
        exact for the returned embedding in any case.
    settle : float, optional
        Masks whose loss changed by less than this in a step are left as they are from then on;
        None (the default) always takes all steps.
    keep_last_step_heatmaps : bool
        Also return the maps of the last step, made before its update, as the published code does.

    Raises
    ------
    ConfigError
        If a value cannot work.
    """

    steps: int = 10
    learning_rate: float = 0.1
    alpha: float = 0.0
    weight_decay: float = 0.0
    layers: int = 1
    explainer: Literal["legrad"] = "legrad"
    query_stride: int | Literal["auto"] = "auto"
    settle: float | None = None
    keep_last_step_heatmaps: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "layers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1; got {value!r}.")
        for name, floor in (("learning_rate", 0.0), ("alpha", 0.0), ("weight_decay", 0.0)):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < floor:
                raise ConfigError(f"{name} must be a finite number of at least 0; got {value!r}.")
        if self.learning_rate == 0:
            raise ConfigError("learning_rate must be above 0; got 0.")
        if self.explainer != "legrad":
            raise ConfigError(f"explainer must be 'legrad'; got {self.explainer!r}.")
        stride, settle = (getattr(self, name) for name in ("query_stride", "settle"))
        whole = isinstance(stride, Integral) and not isinstance(stride, bool)
        if stride != "auto" and (not whole or stride < 1):
            raise ConfigError(
                "query_stride must be 'auto' or a whole number of at least 1 (1 is exact); "
                f"got {stride!r}."
            )
        number = isinstance(settle, Real) and not isinstance(settle, bool)
        if settle is not None and (not number or not 0 < settle < math.inf):
            raise ConfigError(f"settle must be None or a finite number above 0; got {settle!r}.")
