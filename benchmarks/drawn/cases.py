"""What is measured: a model with its names, new scenes of its drawings, windows of real images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.datasets.dataset import BadRecordError
from napari_maskinversion.bench.datasets.scene_dataset import (
    SIDE,
    Case,
    Drawings,
    bundled_drawings,
    draw_scenes,
    names_of_model,
    read_picture,
    with_drawings,
)
from napari_maskinversion.demo_model.domains import Picture, Split, files_of
from napari_maskinversion.demo_model.scene_words import REAL, Name
from napari_maskinversion.demo_model.scenes import pyramid
from napari_maskinversion.engine.models.backbone import Backbone

from .sprites import (
    SEEN_STYLES,
    UNSEEN_STYLE,
    SpriteError,
    load_sprites,
)

PROMPT: Final = "a photo of a {}"
STYLES: Final[dict[str, tuple[str, ...]]] = {"seen": SEEN_STYLES, "unseen": (UNSEEN_STYLE,)}
CONTEXT: Final = 2.0  # a window's side over the longer side of the region's box
LEAST_WINDOW: Final = {"aerial": 96, "blood": 64, "nuclei": 32}  # pixels


@dataclass(frozen=True)
class ModelUnderTest:
    """A model and its names."""

    model: Backbone
    names: tuple[str, ...]  # Candidate names for regions of drawings
    # Whether the names are the model's own. Otherwise the bundled model's names are used.
    taught: bool

    @property
    def about(self) -> dict[str, Any]:
        """What figures say about the model."""
        weights = {"model": self.model.name, "fingerprint": self.model.fingerprint}
        return {**weights, "names": len(self.names)}

    @property
    def drawn(self) -> tuple[Name, ...]:
        """Names that have drawings."""
        return with_drawings(self.names)

    def knows(self, kind: str) -> bool:
        """Return whether the model knows the names of a real kind."""
        real = {n.name for n in REAL if n.group == kind}
        return not self.taught or real <= set(self.names)

    @cached_property
    def texts(self) -> NDArray[np.float32]:
        """Unit text embeddings (names, e) of the names."""
        return self.model.encode_text([PROMPT.format(n) for n in self.names])

    def real_texts(self, kind: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return a kind's indices into `demo_model.domains.NAMES`, and unit text embeddings."""
        members = np.array([i for i, name in enumerate(REAL) if name.group == kind])
        template = REAL[members[0]].templates[0]
        return members, self.model.encode_text([template.format(REAL[i].name) for i in members])

    def resolutions(self) -> list[int]:
        """Return resolutions to choose from, in pixels, the native one first."""
        native, patch = self.model.native_resolution, self.model.patch_size
        others = [native * 0.75, native * 1.25, native * 1.5, self.model.working_resolution]
        sides = [round(side / patch) * patch for side in others]
        return [native, *sorted(set(sides) - {native})]

    def resolution(self, wanted: int | None) -> int:
        """Return the wanted resolution, or the model's working resolution."""
        if wanted is not None and wanted < 2 * self.model.patch_size:
            raise InputError(
                f"--resolution must be at least {2 * self.model.patch_size} for {self.model.name}; "
                f"got {wanted}."
            )
        return self.model.working_resolution if wanted is None else wanted


def subject_of(model: Backbone) -> ModelUnderTest:
    """Return a loaded model with its names."""
    return ModelUnderTest(model, *names_of_model(model))


def labels_of(cases: Iterable[Case]) -> NDArray[np.int64]:
    """Return the labels of all regions."""
    return np.concatenate([case.labels for case in cases])


def sources_of(cases: Iterable[Case]) -> list[str]:
    """Return the source of each region."""
    return [case.source for case in cases for _ in case.labels]


def kinds_of(*, short: bool) -> tuple[str, ...]:
    """Return the kinds of drawings that a measurement shows."""
    return ("bundled",) if short else tuple(STYLES)


class SceneSource:
    """Source of scenes; every kind of drawings and number of objects has its own seeds."""

    def __init__(self, subject: ModelUnderTest, folder: Path | None) -> None:
        self.subject = subject
        self.folder = folder

    def draw(
        self, kind: str, count: int, objects: int, split: str = "test", skip: int = 0
    ) -> Iterator[Case]:
        """Draw scenes of a split; labels are indices into the model's names.

        ``skip`` seeds are left to other measurements.
        """
        drawings = self._bundled if kind == "bundled" else self._rendered(kind)
        skip += 1_000_000 * (kind == "unseen")
        return draw_scenes(drawings, count, objects, split, skip)

    @cached_property
    def _bundled(self) -> Drawings:
        return bundled_drawings(self.subject.model, self.subject.names)

    def _rendered(self, kind: str) -> Drawings:
        """Render every name that the model knows in the styles of a kind."""
        drawn = self.subject.drawn
        try:
            sprites = load_sprites(self.folder, size=SIDE, names=drawn, styles=STYLES[kind])
        except SpriteError as error:
            raise InputError(str(error)) from None
        except ModuleNotFoundError as error:
            if error.name != "resvg_py":
                raise
            raise InputError(
                "Rendering the emoji drawings needs resvg-py: pip install resvg-py, or use --short."
            ) from None
        labels = np.array([self.subject.names.index(name.name) for name in drawn])
        return pyramid(sprites, levels=4), labels


# -- real images ------------------------------------------------------------------------------


def pictures(
    folder: Path, split: Split, kind: str, skipped: dict[str, str] | None = None
) -> list[Picture]:
    """Read every picture of a split; bad ones are noted in ``skipped``, or refused."""
    usable = []
    for file in files_of(folder, split, kind):
        try:
            picture = read_picture(file, kind, f"{kind}, {file.stem}")
        except BadRecordError as error:
            if skipped is None:
                raise BadRecordError(
                    f"{error} Say --skip-bad to leave such images out; finished parts are kept."
                ) from None
            skipped[str(file)] = str(error)
            continue
        if picture is not None:
            usable.append(picture)
    if not any(len(picture.boxes) for picture in usable):
        why = next(iter((skipped or {}).values()), "there are none with regions")
        raise BadRecordError(f"No {split} image of {kind} in {folder} can be used: {why}")
    return usable


def draw_windows(pictures: Iterable[Picture], per_class: int, *, seed: int = 0) -> Iterator[Case]:
    """Choose up to ``per_class`` regions of each class at random, each in its own window.

    Labels are indices into `demo_model.domains.NAMES`.
    """
    places: dict[int, list[tuple[Picture, int]]] = {}
    for picture in pictures:
        for index, label in enumerate(picture.labels.tolist()):
            places.setdefault(label, []).append((picture, index))
    rng = np.random.default_rng(seed)
    for label in sorted(places):
        chosen = rng.permutation(len(places[label]))[:per_class]
        yield from (_window(*places[label][int(i)]) for i in chosen)


def _window(picture: Picture, index: int) -> Case:
    height, width = picture.pixels.shape[:2]
    y0, x0, y1, x1 = picture.boxes[index].tolist()
    side = round(max(LEAST_WINDOW[picture.kind], CONTEXT * max(y1 - y0, x1 - x0)))
    side = min(side, height, width)
    y = int(np.clip((y0 + y1 - side) // 2, 0, height - side))
    x = int(np.clip((x0 + x1 - side) // 2, 0, width - side))
    mask = picture.mask(index, y, x, side, side) > 0.5
    pixels = picture.pixels[y : y + side, x : x + side]
    return Case(pixels, mask[None], picture.labels[index : index + 1], picture.name)
