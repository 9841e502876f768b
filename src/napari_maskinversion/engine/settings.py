"""Settings of one inversion, what they ask of a model, and what "auto" chooses."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from pydantic import field_validator, model_validator

from ..base.errors import ConfigError
from ..base.validation import Config, setting
from .explain.registry import MAPS, NEEDS

if TYPE_CHECKING:
    ExplainerName = str
else:
    ExplainerName = Literal[tuple(MAPS)]  # so that validation and forms know the names


# Share of a device's memory that inversions may use, unless told otherwise.
MEMORY_SHARE: Final = 1 / 8
# Share of that for decompositions; the rest is for the buffers of a step.
DECOMPOSED_SHARE: Final = 0.6
# Multiply-adds in the time that reading one number from memory takes, by kind of device.
_READ: Final = {"cpu": 20, "cuda": 40, "mps": 70}


class InversionConfig(Config):
    """How masks are inverted. The defaults are the paper's (arXiv 2407.20034).

    The metadata of each field (title, description, range, unit, group, ``ui_max`` for spin boxes
    and sliders) is what the command line and the panel show. Frozen; ``config.changed(steps=20)``
    returns a checked copy.

    Attributes
    ----------
    steps : int
        AdamW updates per mask, K in the paper; at least 1. Default: 10.
    learning_rate : float
        Step size of AdamW; above 0. Default: 0.1.
    alpha : float
        Weight of the regulariser ``1 - cos(embedding, image embedding)``; with 0 only the
        region counts, about 5 keeps its context. Default: 0.
    weight_decay : float
        AdamW's decoupled weight decay; 0 or more. Default: 0.
    layers : int
        How many of the last transformer layers are explained; at least 1. Default: 1.
    explainer : str
        The explainability map that is matched with the mask, a name of `explain.registry.MAPS`.
        GradCAM reads only the last layer: ``layers`` must be 1. Default: "legrad".
    fast : bool
        Estimate LeGrad's map from fewer products and query tokens for each mask whose estimate
        agrees with the exact map; exact elsewhere, for small models and on a GPU. The result (maps,
        overlaps, the last loss) is always exact for the returned embedding. The other maps
        are always exact. Default: False.
    route : {"auto", "direct", "decomposed"}
        How LeGrad of a class-token ViT is computed; only rounding differs.
        "decomposed" is the paper's gradient decomposition: it takes memory (1.2 GB for ViT-B/16 at
        448 px) and pays for many masks. "auto" chooses by model, grid, number of masks and memory
        budget. Default: "auto".
    precision : {"float32", "bfloat16", "float16", "tf32"}
        Precision of the large products of LeGrad of a class-token ViT, the image's encoding
        included. Embeddings, losses and the optimiser stay float32, as do other maps and towers.
        "bfloat16" needs a processor with AMX or AVX512-BF16, or a GPU, "float16" a GPU; with "tf32"
        an NVIDIA GPU rounds the factors of float32 products, in every map and tower.
        Default: "float32".
    keep_last_step_heatmaps : bool
        Also return the maps of the last step, made before its update, as the published code does.
        Default: False.

    Raises
    ------
    ConfigError
        If there is no such field, or a value cannot work.
    """

    steps: int = setting(
        10, "Steps", "Optimisation steps per region.", unit="steps", ui_max=200, ge=1, le=100_000
    )
    learning_rate: float = setting(
        0.1, "Learning rate", "Step size of the optimiser (AdamW).", ui_max=10, gt=0
    )
    alpha: float = setting(
        0.0,
        "Surroundings",
        "How much of them counts (alpha). 0: the region alone; about 5: with what is around it.",
        ui_max=20,  # the largest value in the paper
        ge=0,
    )
    weight_decay: float = setting(
        0.0, "Weight decay", "Decoupled weight decay of the optimiser (AdamW).", ui_max=1, ge=0
    )
    layers: int = setting(
        1,
        "Layers",
        "How many of the last transformer layers are explained.",
        unit="layers",
        ui_max=48,
        ge=1,
    )
    explainer: ExplainerName = setting("legrad", "Map", "Explainability map matched with a region.")
    fast: bool = setting(
        False,
        "Fast",
        "Estimate LeGrad's map where the estimate agrees with the exact one. "
        "Saves about half of the time with large models; changes nothing on a GPU.",
    )
    route: Literal["auto", "direct", "decomposed"] = setting(
        "auto",
        "Route",
        "How the exact map is computed. auto: by model, input, number of regions and memory "
        "budget; direct: from the weights; decomposed: from matrices made once per image.",
    )
    precision: Literal["float32", "bfloat16", "float16", "tf32"] = setting(
        "float32",
        "Precision",
        "Precision of the large matrix products. bfloat16: processors with AMX or AVX512-BF16, "
        "and GPUs; float16: GPUs; tf32: NVIDIA GPUs. Faster than float32 and less exact.",
    )
    keep_last_step_heatmaps: bool = setting(
        False,
        "Keep heatmaps of the last step",
        "Also return the heatmaps made before the last update, as the published code does.",
        cli=False,
        ui=False,
    )

    @field_validator("explainer", mode="before")
    @classmethod
    def _inverts(cls, name: Any) -> Any:
        if name == "rollout":
            raise ConfigError(
                "explainer 'rollout' cannot be inverted: attention rollout does not depend on the "
                "embedding. MaskInverter.rollout() or the command napari-maskinversion rollout "
                f"shows it; choose {', '.join(MAPS)} for an inversion."
            )
        return name

    @model_validator(mode="after")
    def _fits_the_map(self) -> Self:
        if MAPS[self.explainer].last_layer_only and self.layers != 1:
            raise ConfigError(
                f"explainer {self.explainer!r} explains the last layer only: layers must be 1; "
                f"got {self.layers}."
            )
        return self

    @classmethod
    def of(cls, config: InversionConfig | None = None, **changes: Any) -> InversionConfig:
        """Return a configuration, or the default one, with other values of fields.

        Raises
        ------
        ConfigError
            If there is no such field, or a value cannot work.
        """
        config = config or _DEFAULT
        if changes:
            return config.changed(**changes)
        return config

    def check(self, tower: ExplainedTower, device: str = "cpu") -> None:
        """Refuse settings that an image tower cannot work with; warn of what a device ignores.

        Raises
        ------
        ConfigError
            If it has fewer layers than are to be explained, or does not offer the map.
        """
        if self.layers > tower.num_layers:
            raise ConfigError(
                f"layers is {self.layers} but the model has {tower.num_layers} layers."
            )
        spec = MAPS[self.explainer]
        if self.explainer not in tower.explainers:
            raise ConfigError(
                f"explainer {self.explainer!r} does not work with this model ({tower.family}): "
                f"{NEEDS[spec.needs]}. Choose {' or '.join(tower.explainers)}."
            )
        if spec.last_layer_if_pooled and tower.attention_pooled and self.layers != 1:
            raise ConfigError(
                f"explainer {self.explainer!r} explains only the last layer of a model that "
                f"pools by attention: layers must be 1; got {self.layers}."
            )
        if self.fast and device != "cpu":
            note = f"fast changes nothing on a GPU ({device}): all maps are exact there."
            warnings.warn(note, stacklevel=2)


_DEFAULT: Final = InversionConfig()


class ExplainedTower(Protocol):
    """What settings are checked against; see `ImageTower`."""

    family: str
    explainers: tuple[str, ...]
    attention_pooled: bool
    num_layers: int


def decomposing_pays(
    hidden: int, joint: int, passes: int, masks: int, device_type: str = "cpu"
) -> bool:
    """Return whether the decomposed route needs less work than the direct one.

    Work counts multiply-adds and numbers read from memory. Direct: n*m*d per pass. Decomposed: the
    same once for each of the e joint dimensions, then n*d*e per pass; its n*d*e numbers are read
    once for all masks. The other products are the same on both routes.
    """
    reads = -(-passes // max(masks, 1)) * _READ.get(device_type, 20)
    # All in units of n*d.
    return joint * hidden + (passes + reads) * joint < passes * hidden
