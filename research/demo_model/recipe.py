"""Settings of a training run of the demo model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from napari_maskinversion.demo_model.backgrounds import TRAINING
from napari_maskinversion.demo_model.scene_words import CHOSEN
from napari_maskinversion.demo_model.scenes import SceneStyle

from .losses import Descent
from .restyle import MILD, STRONG

# One size for some steps; things fill more tokens of larger images.
SMALL: Final = ((64, 64), (64, 64), (96, 96), (128, 128))
LARGE: Final[tuple[tuple[int, int], ...]] = (
    *[(128, 128)] * 5,
    *((112, 144), (144, 112), (96, 96), (160, 160), (160, 160)),
)
WARM: Final[dict[str, Any]] = {"warmup": 50, "steady": 0.0}
# Stage 14's: a GPU shows four times as many images a step, and renders four steps at once.
ON_GPU: Final[dict[str, Any]] = {
    **{"small": 480, "large": 128, "together": 4, "judged": 192, "rows": 10_240, "fresh": 128},
    **{"warmup": 300, "steady": 0.3, "average": 0.999},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of a training run, by default for a CPU; shares are of the time budget.

    Every step shows two batches: many small images, mostly of one object, teach the names; few
    images at the working resolution teach the maps by supervised inversions.
    """

    minutes: float = 90.0  # on a CPU of processor time, per thread
    seed: int = 0
    objects: int = len(CHOSEN)
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.05
    warmup: int = 150  # steps
    text_steps: int = 600  # before the clock starts
    small: int = 120  # images of 64 px a step, or fewer larger ones with as many pixels
    large: int = 32  # images of 128 px a step, or as many pixels
    together: int = 1  # steps whose scenes are rendered at once
    finer: float = 0.3  # share of scenes rendered 1.5 times as large, as measured ones are
    real: float = 0.25  # share of real images in both, if there are any
    rows: int = 640  # views of real images to draw from
    fresh: int = 8  # of them are new whenever scenes are rendered
    emoji: int = 3  # times as often as pictograms
    milder_from: float = 0.7  # after it, fewer odd colours, made-up styles and strangers
    tame_until: float = 0.1  # backgrounds and turns grow to their full strength until then
    singles_until: float = 0.2  # almost only single objects, and no inversions, before
    descent: float = 1.0  # weight of the supervised inversions
    inversion: Descent = field(default_factory=Descent)
    queries: int = 32
    warm: bool = False  # starts from an earlier model, without the easy beginning
    steady: float = 0.5  # share of the budget at the highest learning rate, before it falls
    average: float = 0.998  # decay per step of the averaged weights, which are the ones kept
    judged: int = 48  # scenes of three objects to measure on, and as many of others in proportion
    strangers: float = 0.3  # share of large drawn scenes with an object without a name
    restyled: bool = True  # made-up styles and backgrounds, after the calm beginning
    photographs: tuple[str, ...] = ()  # files of more backgrounds, beside scikit-image's

    def share(self, seconds: float) -> float:
        """Return the place in the schedule, 0..1, after some seconds of training."""
        used = min(1.0, seconds / (60 * self.minutes))
        return self.singles_until + (1 - self.singles_until) * used if self.warm else used

    def rate(self, used: float, step: int) -> float:
        """Return the learning rate: warm-up, constant, then cosine to a hundredth."""
        falling = max(0.0, min(1.0, used) - self.steady) / (1 - self.steady)
        return (
            self.learning_rate
            * min(1.0, (step + 1) / self.warmup)
            * max(0.5 * (1 + math.cos(math.pi * falling)), 0.01)
        )

    def mixture(self, share: float, *, large: bool) -> tuple[float, int]:
        """Return the share of scenes with one object, and the most objects of the others."""
        if share < self.singles_until:
            return 0.9, 2
        return (0.2, 5) if large else (0.6, 3)

    def images(self, size: tuple[int, int], *, large: bool) -> int:
        """Return how many images of a size a step shows."""
        pixels = self.large * 128 * 128 if large else self.small * 64 * 64
        return round(pixels / (size[0] * size[1]))

    def weight(self, share: float) -> float:
        """Return the weight of the inversions, which grows after the easy beginning."""
        grown = 1.0 if self.warm else min(1.0, 0.2 + (share - self.singles_until) / 0.1)
        return self.descent * grown

    def look(self, share: float, *, large: bool) -> SceneStyle:
        """Return the variation of scenes at a place in the schedule."""
        wild = min(1.0, share / self.tame_until)
        mild = share >= self.milder_from
        return SceneStyle(
            turn=0.1 + 0.35 * wild,
            upside_down=0.08 * wild,
            colour=0.06 + 0.16 * wild,
            grain=0.1 * wild,
            contrast=0.3 + 0.45 * wild,
            margin=(0.34 - 0.2 * wild) if not large else 0.08,
            photographs=(*TRAINING, *self.photographs) if wild == 1 else (),
            odd=(0.08 if mild else 0.25) * wild,
            blurred=(0.08 if mild else 0.15) * wild,
            distractors=0.5 if large else 0.0,
            restyling=(MILD if mild else STRONG) if self.restyled and wild == 1 else None,
            strangers=(0.5 if mild else 1.0) * self.strangers if large else 0.0,
            apart=0.62 if wild < 1 else 0.5,
        )
