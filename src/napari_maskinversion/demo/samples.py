"""Write the sample scenes: ``python -m napari_maskinversion.demo.samples --out sample_data``.

The seeds were fixed before the model was trained and are never picked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .sprites import SEEN_STYLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample scene, made by `compose` from these figures alone."""

    name: str
    title: str
    seed: int
    objects: int
    size: tuple[int, int]  # height, width
    styles: tuple[str, ...]


SAMPLES: Final[tuple[Sample, ...]] = (
    Sample(name="everyday-1", title="Everyday things 1", seed=1, objects=4, size=(512, 512), styles=("noto",)),
    Sample(name="everyday-2", title="Everyday things 2", seed=2, objects=5, size=(480, 640), styles=("fluent-emoji",)),
    Sample(name="everyday-3", title="Everyday things 3", seed=3, objects=3, size=(512, 512), styles=SEEN_STYLES),
)
