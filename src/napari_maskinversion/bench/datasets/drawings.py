"""Drawings for composed scenes: rendered emoji sets, or cut-outs of the sample scenes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...base.errors import InputError
from ...demo_model.scenes import pyramid
from ...demo_model.sprites import SEEN_STYLES, UNSEEN_STYLE, SpriteError, load_sprites
from ...images.sample_scenes import load_scene, scene_names
from ..model_under_test import ModelUnderTest
from .cases import SIDE, Case, draw_scenes

STYLES: Final[dict[str, tuple[str, ...]]] = {"seen": SEEN_STYLES, "unseen": (UNSEEN_STYLE,)}
CUT_OUT: Final = 128  # pixels of a drawing cut out of a sample scene


def kinds_of(*, short: bool) -> tuple[str, ...]:
    """Return the kinds of drawings that a measurement shows."""
    return ("bundled",) if short else tuple(STYLES)


class SceneSource:
    """Source of scenes; every kind of drawings and number of objects has its own seeds."""

    def __init__(self, subject: ModelUnderTest, folder: Path | None) -> None:
        self.subject = subject
        self.folder = folder

    @cached_property
    def _bundled(self) -> tuple[list[Tensor], NDArray[np.int64]]:
        return bundled(self.subject)

    def draw(
        self, kind: str, count: int, objects: int, split: str = "test", skip: int = 0
    ) -> Iterator[Case]:
        """Draw scenes of a split; labels are indices into the model's names.

        ``skip`` seeds are left to other measurements.
        """
        first = (1_000_000 if kind == "unseen" else 0) + 100_000 * objects + skip
        if kind == "bundled":
            sprites, labels = self._bundled
        else:
            sprites = rendered(self.subject, kind, self.folder)
            labels = np.array([self.subject.names.index(n.name) for n in self.subject.drawn])
        return draw_scenes(sprites, count, objects, split=split, first_seed=first, labels=labels)


def rendered(subject: ModelUnderTest, kind: str, folder: Path | None) -> list[Tensor]:
    """Render every name that the model knows in the styles of a kind, as a pyramid."""
    try:
        sprites = load_sprites(folder, size=SIDE, names=subject.drawn, styles=STYLES[kind])
    except SpriteError as error:
        raise InputError(str(error)) from None
    except ModuleNotFoundError as error:
        if error.name != "resvg_py":
            raise
        raise InputError(
            "Rendering the emoji drawings needs resvg-py: "
            'pip install "napari-maskinversion[bench]", or use --short.'
        ) from None
    return pyramid(sprites, levels=4)


def bundled(subject: ModelUnderTest) -> tuple[list[Tensor], NDArray[np.int64]]:
    """Cut the drawings out of the package's sample scenes: no network, no renderer."""
    scenes = [load_scene(name) for name in scene_names()]
    known = [n.name for n in subject.drawn]
    names = sorted({t for s in scenes for t in s.truth.values() if t in known}, key=known.index)
    if len(names) < 5:
        raise InputError(
            f"{subject.model.name} knows {len(names)} of the names in the sample scenes; "
            "--short needs five."
        )
    sprites = np.zeros((len(scenes), len(names), CUT_OUT, CUT_OUT, 4), np.uint8)
    for style, scene in enumerate(scenes):
        for region, name in scene.truth.items():
            if name in names:
                sprites[style, names.index(name)] = _cut(scene.image, scene.regions == region)
    labels = np.array([subject.names.index(name) for name in names])
    return pyramid(sprites, levels=3), labels


def _cut(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Cut one object out onto a transparent square that it fills, (128, 128, 4)."""
    from PIL import Image

    ys, xs = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = (slice(ys[0], ys[-1] + 1), slice(xs[0], xs[-1] + 1))
    cut = np.concatenate([image[box], 255 * mask[box][..., None].astype(np.uint8)], 2)
    side = max(cut.shape[:2])
    square = np.zeros((side, side, 4), np.uint8)
    y, x = (side - cut.shape[0]) // 2, (side - cut.shape[1]) // 2
    square[y : y + cut.shape[0], x : x + cut.shape[1]] = cut
    small = Image.fromarray(square).convert("RGBa").resize((CUT_OUT, CUT_OUT))
    return np.asarray(small.convert("RGBA"), np.uint8)
