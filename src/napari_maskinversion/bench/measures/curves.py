"""``bench steps`` and ``bench alpha``: how accuracy and overlap change with K and with alpha."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.progress import listening
from ...engine.invert.dice import upsample_heatmap
from ...engine.invert.inverter import MaskInverter
from ...engine.invert.loop import StepState
from ...engine.settings import InversionConfig
from ..datasets.scenes import Case, kinds_of, sources_of
from ..model_under_test import ModelUnderTest
from .figures_file import Figures, Tell
from .scene_methods import overlap
from .scenes import SceneBench
from .statistics import hits, share


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """One curve."""

    kind: str
    values: tuple[float, ...]  # The points: 0 to K, or weights of the regulariser
    # Everything else; for a curve over steps, ``steps`` is the last point
    inversion: InversionConfig
    resolution: int  # Pixels of the model's input
    scenes: int
    objects: int
    short: bool = False  # Only drawings that come with the package
    sprites: Path | None = None  # Folder of the emoji sets

    def settings(self, subject: ModelUnderTest) -> dict[str, Any]:
        """Return everything the figures depend on."""
        return {
            "model": subject.model.name,
            "fingerprint": subject.model.fingerprint,
            "names": len(subject.names),
            **{k: v for k, v in asdict(self).items() if k not in ("inversion", "sprites")},
            "inversion": dict(self.inversion),
        }


class CurveBench(SceneBench):
    """Measures the parts of a curve, one for each kind of drawings."""

    plan: CurvePlan

    def _parts(self) -> Iterator[tuple[str, Callable[[Tell], Figures]]]:
        for kind in kinds_of(short=self.plan.short):
            yield kind, partial(self._measure, kind)

    def _measure(self, kind: str, tell: Tell) -> dict[str, Any]:
        cases = list(self._scenes.draw(kind, self.plan.scenes, self.plan.objects))
        return measure_curve(self.subject, cases, self.plan, tell)


def measure_curve(
    subject: ModelUnderTest, cases: Sequence[Case], plan: CurvePlan, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Measure one curve on these cases."""
    inverter = MaskInverter(subject.model)
    rows: list[list[NDArray[np.float64]]] = []  # per case and value: (M, 4)
    for done, case in enumerate(cases):
        inverter.set_image(case.image, resolution=plan.resolution)
        follow = _steps if plan.kind == "steps" else _alphas
        rows.append(follow(inverter, subject, case, plan))
        tell((done + 1) / len(cases))
    sources = sources_of(cases)
    table = [np.concatenate(column) for column in zip(*rows, strict=True)]
    return {
        "values": list(plan.values),
        "regions": len(sources),
        "top1": [share(points[:, 0], sources) for points in table],
        "iou": [share(points[:, 1], sources) for points in table],
        "dice": [float(points[:, 2].mean()) for points in table],
        "cosine": [float(points[:, 3].mean()) for points in table],
    }


def _steps(
    inverter: MaskInverter, subject: ModelUnderTest, case: Case, plan: CurvePlan
) -> list[NDArray[np.float64]]:
    """Measure all points in one inversion, from the embeddings and maps of every step."""
    embeddings: dict[int, NDArray[np.float32]] = {}
    maps: dict[int, NDArray[np.float32]] = {}

    def keep(news: Any) -> None:
        if isinstance(news, StepState) and news.embeddings is not None:
            embeddings[news.done] = news.embeddings()
            if news.grid_maps is not None:
                maps[news.done] = news.grid_maps()

    with listening(keep):
        losses = inverter.invert(case.masks, plan.inversion).losses
    # The first map is not told; an inversion of one step returns it.
    first = plan.inversion.changed(steps=1, keep_last_step_heatmaps=True)
    start = inverter.invert(case.masks[:1], first).last_step_grid_maps
    assert start is not None
    maps[0] = np.repeat(start, len(case.masks), 0)
    point = partial(_point, inverter, subject, case, plan.inversion.alpha)
    return [point(embeddings[k], maps[k], losses[:, k]) for k in map(int, plan.values)]


def _alphas(
    inverter: MaskInverter, subject: ModelUnderTest, case: Case, plan: CurvePlan
) -> list[NDArray[np.float64]]:
    points = []
    for alpha in plan.values:
        result = inverter.invert(case.masks, plan.inversion.changed(alpha=alpha))
        reached = result.raw_embeddings, result.grid_maps, result.losses[:, -1]
        points.append(_point(inverter, subject, case, alpha, *reached))
    return points


def _point(
    inverter: MaskInverter,
    subject: ModelUnderTest,
    case: Case,
    alpha: float,
    embeddings: NDArray[np.float32],
    maps: NDArray[np.float32],
    losses: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return hit, overlap, Dice loss and cosine to the image's embedding of each mask, (M, 4)."""
    size = (case.masks.shape[1], case.masks.shape[2])
    heat = np.stack([upsample_heatmap(m, inverter.input_size, size) for m in maps])
    image = inverter.image_embedding
    lengths = np.linalg.norm(embeddings, axis=1) * np.linalg.norm(image)
    cosine = embeddings @ image / np.maximum(lengths, 1e-12)
    right = hits(embeddings, subject.texts, case.labels)[:, 0]
    dice = losses - alpha * (1 - cosine)
    return np.stack([right, overlap(heat, case.masks), dice, cosine], 1).astype(np.float64)
