"""Compare two settings, models or methods on one region."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..base.errors import ConfigError
from ..base.progress import telling
from ..images.plane_source import read_reduced
from ..language.labels.vocabulary import Vocabulary
from ..results.region_result import RegionResult
from ..results.run_info import RunInfo
from ..results.settings import RunSettings
from .explaining import window_of
from .run import PlaneTask, run_planes

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


def with_one_change(settings: RunSettings, name: str, value: Any) -> RunSettings:
    """Return the settings with one of them changed."""
    if name == "window":
        value = settings.window.changed(mode=value)
    if name == "model":
        return settings.changed({"model": value, "architecture": None})
    if name in ("method", "window"):
        return settings.changed({name: value})
    if not settings.method.uses_inversion:
        raise ConfigError(
            f"{settings.method.title} does not invert, so it has no {name.replace('_', ' ')}; "
            "choose MaskInversion, or change something else."
        )
    return settings.changed({f"inversion.{name}": value})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Answer:
    """Result of one region with one group of settings."""

    settings: RunSettings
    result: RegionResult
    info: RunInfo
    # Encoding and inversion; loading the model and embedding the labels do not count
    seconds: float
    picture: npt.NDArray[np.uint8]  # (h, w, 3), uint8. What the model saw.
    heatmap: npt.NDArray[np.float32]  # (h, w), float32. All 0 if the method has none.


def answer(
    model: Backbone, task: PlaneTask, vocabulary: Vocabulary | None, settings: RunSettings
) -> Answer:
    """Embed and rank one region."""
    _warm_up(model)
    seconds = 0.0
    since = perf_counter()
    counted = True

    def count(news: Any = None) -> Any:
        nonlocal seconds, counted
        seconds += (perf_counter() - since) * counted
        counted = getattr(news, "stage", "") != "labels"
        return news

    def go_on() -> None:  # the listener's time is not the method's
        nonlocal since
        since = perf_counter()

    with telling(count, after=go_on):
        results = run_planes(model, [task], vocabulary, settings)
    count()
    (result,) = results.regions
    picture = _picture(task, result)
    size = (picture.shape[0], picture.shape[1])
    heatmap = np.zeros(size, np.float32)
    if result.has_heatmap:
        heatmap = results.window_heatmap(0, size).values
    return Answer(
        settings=settings,
        result=result,
        info=results.info,
        seconds=seconds,
        picture=picture,
        heatmap=heatmap,
    )


def cosine(answer: Answer, other: Answer) -> float | None:
    """Cosine of two answers' embeddings; None where they come from different models."""
    if answer.info.fingerprint != other.info.fingerprint:
        return None
    return float((answer.result.embedding * other.result.embedding).sum())


def _picture(task: PlaneTask, result: RegionResult) -> npt.NDArray[np.uint8]:
    from ..engine.methods.edits import as_rgb8

    window = window_of(result.window, task.source.levels)
    return as_rgb8(read_reduced(task.source, window.level, window.level_box, window.reduce))


def _warm_up(model: Backbone) -> None:
    """Multiply once, so that timings do not include how a device or library starts."""
    import torch

    from ..engine.compute.compute_lock import computing

    with computing():
        square = torch.ones(256, 256, device=model.device)
        float((square @ square).sum())
