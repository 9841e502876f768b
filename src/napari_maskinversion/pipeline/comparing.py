"""Compare two settings, models or methods on one region."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..base.errors import ConfigError, InputError
from ..base.steps import Steps
from ..engine.methods.registry import Method
from ..engine.settings import InversionConfig
from ..images.plane_source import read_reduced
from ..images.windows import WindowConfig
from ..language.labels.vocabulary import Vocabulary
from ..results.region_result import RegionResult
from ..results.run_info import RunInfo
from .explaining import window_of
from .run import PlaneTask, RegionChunk, run_planes

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a region is embedded.

    Attributes
    ----------
    model : str
    config : InversionConfig
    window : WindowConfig
    keep_aspect : bool
    method : Method
    """

    model: str
    config: InversionConfig = field(default_factory=InversionConfig)
    window: WindowConfig = field(default_factory=WindowConfig)
    keep_aspect: bool = True
    method: Method = field(default_factory=Method)

    def but(self, what: str, value: Any) -> Setting:
        """Return the same setting with one thing changed.

        Parameters
        ----------
        what : str
            "model", "method", "window" (a mode), or a field of `InversionConfig`.
        value : object
            For a method, its name or a `Method`.

        Raises
        ------
        ConfigError
            If the value is invalid, or has no effect: methods that do not invert have no steps or
            alpha.
        """
        if what == "model":
            return replace(self, model=value)
        if what == "method":
            return replace(self, method=Method.of(value))
        if what == "window":
            return replace(self, window=replace(self.window, mode=value))
        if not self.method.uses_inversion:
            raise ConfigError(
                f"{self.method.title} does not invert, so it has no {what.replace('_', ' ')}; "
                "choose MaskInversion, or change something else."
            )
        return replace(self, config=replace(self.config, **{what: value}))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Answer:
    """Result of one setting for a region.

    Attributes
    ----------
    setting : Setting
    result : RegionResult
    info : RunInfo
    seconds : float
        Encoding and inversion; loading the model and embedding the labels do not count.
    picture : ndarray, shape (h, w, 3), uint8
        What the model saw.
    heatmap : ndarray, shape (h, w), float32 in 0..1
        All 0 if the method has none.
    """

    setting: Setting
    result: RegionResult
    info: RunInfo
    seconds: float
    picture: npt.NDArray[np.uint8]
    heatmap: npt.NDArray[np.float32]


def answer(
    model: Backbone, task: PlaneTask, vocabulary: Vocabulary | None, setting: Setting
) -> Generator[str, None, Answer]:
    """Embed and rank one region; yields progress texts. You may close it between two of them.

    Parameters
    ----------
    model : Backbone
        The model that ``setting`` names.
    task : PlaneTask
        Its only region is the one to compare.
    vocabulary : Vocabulary or None
    setting : Setting

    Raises
    ------
    MaskInversionError
        As `run`, or if there is not exactly one region.
    """
    if len(task.regions) != 1:
        raise InputError(f"One region is compared at a time; got {len(task.regions)}.")
    _warm_up(model)
    work = run_planes(
        model,
        [task],
        vocabulary,
        setting.config,
        keep_aspect=setting.keep_aspect,
        window=setting.window,
        method=setting.method,
    )
    seconds, since, counted = 0.0, perf_counter(), True
    with Steps(work) as steps:
        for news in steps:
            seconds += (perf_counter() - since) * counted
            counted = getattr(news, "stage", "") != "labels"
            if not isinstance(news, RegionChunk):
                yield news.text
            since = perf_counter()
    seconds += (perf_counter() - since) * counted
    results = steps.result
    (result,) = results.regions
    picture = _picture(task, result)
    size = (picture.shape[0], picture.shape[1])
    heatmap = np.zeros(size, np.float32)
    if result.has_heatmap:
        heatmap = results.window_heatmap(0, size).values
    return Answer(
        setting=setting,
        result=result,
        info=results.info,
        seconds=seconds,
        picture=picture,
        heatmap=heatmap,
    )


def cosine(one: Answer, other: Answer) -> float | None:
    """Cosine of two answers' embeddings; None where they come from different models."""
    if one.info.fingerprint != other.info.fingerprint:
        return None
    return float((one.result.unit_embedding * other.result.unit_embedding).sum())


def _picture(task: PlaneTask, result: RegionResult) -> npt.NDArray[np.uint8]:
    from ..engine.encode.preprocessing import to_rgb_tensor

    window = window_of(result.window, task.source.levels)
    pixels = read_reduced(task.source, window.level, window.level_box, window.reduce)
    rgb = to_rgb_tensor(pixels)
    if rgb.is_floating_point():
        rgb = rgb.clamp(0, 1).mul(255).round()
    colours = rgb.permute(1, 2, 0).expand(-1, -1, 3)
    return np.ascontiguousarray(colours.numpy().astype(np.uint8))


def _warm_up(model: Backbone) -> None:
    """Start torch's worker threads, so that timings do not include it."""
    import torch

    square = torch.ones(256, 256, device=model.device)
    float((square @ square).sum())
