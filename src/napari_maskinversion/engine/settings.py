"""Settings of one inversion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Final, Literal, get_args

from ..base.errors import ConfigError

ExplainerName = Literal["legrad", "gradcam", "gradcam-no-relu", "chefer"]
EXPLAINERS: Final[tuple[ExplainerName, ...]] = get_args(ExplainerName)
# One line each, for people who choose.
ABOUT_EXPLAINERS: Final[dict[ExplainerName, str]] = {
    "legrad": "LeGrad: positive attention gradients; the paper's choice and its best",
    "gradcam": "GradCAM: weighted channels of the last block's input, what speaks for it",
    "gradcam-no-relu": "GradCAM without ReLU: the same, with what speaks against it",
    "chefer": "CheferCAM: where [CLS] looks, weighted by the gradient; quick, loses detail",
}


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
    explainer : {"legrad", "gradcam", "gradcam-no-relu", "chefer"}
        The explainability map that is matched with the mask. GradCAM looks at the last layer
        alone: ``layers`` must be 1.
    query_stride : int or "auto"
        Every so-many-th row and column of query tokens is averaged over in the later steps; 1 is
        exact. "auto" estimates the map from fewer products and queries, mask by mask where that
        was seen to agree with the exact map, and is exact elsewhere, as it is for small
        models. What is returned (maps, overlaps, the last loss) is
        exact for the returned embedding in any case. Explainers other than "legrad" are always
        exact: "auto" and 1 mean the same for them.
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
    explainer: ExplainerName = "legrad"
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
        self._check_explainer()

    def _check_explainer(self) -> None:
        name: str = self.explainer
        if name == "rollout":
            raise ConfigError(
                "explainer 'rollout' cannot be inverted: attention rollout does not depend on the "
                "embedding. MaskInverter.rollout() or the command napari-maskinversion rollout "
                f"shows it; choose {', '.join(EXPLAINERS)} for an inversion."
            )
        if name not in EXPLAINERS:
            names = ", ".join(repr(name) for name in EXPLAINERS)
            raise ConfigError(f"explainer must be one of {names}; got {self.explainer!r}.")
        if self.explainer.startswith("gradcam") and self.layers != 1:
            raise ConfigError(
                f"explainer {self.explainer!r} explains the last layer only: layers must be 1; "
                f"got {self.layers}."
            )
        if self.explainer != "legrad" and self.query_stride not in ("auto", 1):
            raise ConfigError(
                "query_stride is for explainer 'legrad'; the other maps are always exact: leave "
                f"it at 'auto' (got {self.query_stride!r})."
            )
