"""``bench steps`` and ``bench alpha``: accuracy, heatmap overlap and loss along a curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_maskinversion.base.progress import listening
from napari_maskinversion.bench.datasets.scene_dataset import Case
from napari_maskinversion.bench.measures.figures_file import Figures, Tell
from napari_maskinversion.bench.measures.statistics import share
from napari_maskinversion.engine.explain.interpolation import heatmap
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.engine.invert.loop import StepState
from napari_maskinversion.engine.settings import InversionConfig

from .cases import ModelUnderTest, kinds_of, sources_of
from .methods import hits, overlap
from .plans import CurvePlan
from .scenes import Part, SceneBench

Points = list[NDArray[np.float64]]  # of each value: (M, 4), see `_point`


class CurveBench(SceneBench):
    """Measures a curve on each kind of drawings."""

    plan: CurvePlan

    def __init__(
        self,
        subject: ModelUnderTest,
        plan: CurvePlan,
        kind: str,
        values: Sequence[float],  # the points: 0 to K, or weights of the regulariser
        inversion: InversionConfig,  # for a curve over steps, ``steps`` is the last point
    ) -> None:
        self.kind, self.values, self.inversion = kind, list(values), inversion
        self.side = subject.resolution(plan.resolution)
        super().__init__(subject, plan)

    def settings(self) -> Figures:
        """Return everything the figures depend on."""
        return {
            **self.subject.about,
            "kind": self.kind,
            "values": self.values,
            "resolution": self.side,
            "scenes": self.plan.count,
            "objects": self.plan.objects,
            "short": self.plan.short,
            "inversion": dict(self.inversion),
        }

    def parts(self) -> Iterator[Part]:
        """Yield a curve for each kind of drawings."""
        for kind in kinds_of(short=self.plan.short):
            yield kind, partial(self._drawn, kind)

    def _drawn(self, kind: str, tell: Tell) -> Figures:
        return self.curve(list(self._scenes.draw(kind, self.plan.count, self.plan.objects)), tell)

    def curve(self, cases: Sequence[Case], tell: Tell = lambda _: None) -> Figures:
        """Measure the curve on these cases."""
        inverter = MaskInverter(self.subject.model)
        measure = self._steps if self.kind == "steps" else self._alphas
        rows: list[Points] = []
        for done, case in enumerate(cases, 1):
            inverter.set_image(case.image, resolution=self.side)
            rows.append(measure(inverter, case))
            tell(done / len(cases))
        sources = sources_of(cases)
        table = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return {
            "values": self.values,
            "regions": len(sources),
            "top1": [share(points[:, 0], sources) for points in table],
            "iou": [share(points[:, 1], sources) for points in table],
            "dice": [float(points[:, 2].mean()) for points in table],
            "cosine": [float(points[:, 3].mean()) for points in table],
        }

    def _steps(self, inverter: MaskInverter, case: Case) -> Points:
        """Measure all points in one inversion, from the embeddings and maps of every step."""
        embeddings: dict[int, NDArray[np.float32]] = {}
        maps: dict[int, NDArray[np.float32]] = {}

        def keep(news: Any) -> None:
            if isinstance(news, StepState) and news.embeddings is not None:
                embeddings[news.done] = news.embeddings()
                if news.grid_maps is not None:
                    maps[news.done] = news.grid_maps()

        with listening(keep):
            losses = inverter.invert(case.masks, self.inversion).losses
        # The first map is not told; an inversion of one step returns it.
        first = self.inversion.changed(steps=1, keep_last_step_heatmaps=True)
        start = inverter.invert(case.masks[:1], first).last_step_grid_maps
        assert start is not None
        maps[0] = np.repeat(start, len(case.masks), 0)
        point = partial(self._point, inverter, case, self.inversion.alpha)
        return [point(embeddings[k], maps[k], losses[:, k]) for k in map(int, self.values)]

    def _alphas(self, inverter: MaskInverter, case: Case) -> Points:
        points = []
        for alpha in self.values:
            result = inverter.invert(case.masks, self.inversion.changed(alpha=alpha))
            reached = result.raw_embeddings, result.grid_maps, result.losses[:, -1]
            points.append(self._point(inverter, case, alpha, *reached))
        return points

    def _point(
        self,
        inverter: MaskInverter,
        case: Case,
        alpha: float,
        embeddings: NDArray[np.float32],
        maps: NDArray[np.float32],
        losses: NDArray[np.float32],
    ) -> NDArray[np.float64]:
        """Return (M, 4): hit, overlap, Dice loss and cosine to the image's embedding."""
        size = (case.masks.shape[1], case.masks.shape[2])
        heat = heatmap(maps, inverter.input_size, size)
        image = inverter.image_embedding
        lengths = np.linalg.norm(embeddings, axis=1) * np.linalg.norm(image)
        cosine = embeddings @ image / np.maximum(lengths, 1e-12)
        right = hits(embeddings, self.subject.texts, case.labels)[:, 0]
        dice = losses - alpha * (1 - cosine)
        return np.stack([right, overlap(heat, case.masks), dice, cosine], 1).astype(np.float64)
