"""Data sets of what the bundled model learned: new scenes of its drawings, and real images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...base.errors import InputError
from ...base.regions import Region, Regions
from ...demo_model.backgrounds import MEASURING
from ...demo_model.domains import FOLDERS, Picture, annotated, annotation_of, files_of, pixels_of
from ...demo_model.scene_words import NAMES, OBJECTS, REAL, VOCABULARY_FILE, Name
from ...demo_model.scenes import SceneStyle, compose, generator, pyramid
from ...engine.models.backbone import Backbone
from ...engine.models.specs import bundled_folder
from ...images.sample_scenes import load_scene, scene_names
from .dataset import BadRecordError, Dataset, Sample, assemble, content_of, opening
from .registry import DatasetSpec

CUT_OUT: Final = 128  # pixels of a drawing cut out of a sample scene
SIDE: Final = 256  # pixels of a scene
LEAST: Final = 0.008  # visible share of a scene that every object needs
LOOK: Final = SceneStyle(photographs=MEASURING)
Drawings = tuple[Sequence[Tensor], NDArray[np.int64]]  # a pyramid, and the index of each name


@dataclass(frozen=True, slots=True)
class Case:
    """One image with its regions."""

    image: NDArray[np.uint8]  # (H, W, 3), uint8
    masks: NDArray[np.bool_]  # (M, H, W), bool
    labels: NDArray[np.int64]  # (M,), int64. Index into the candidate names.
    source: str  # Where it comes from; cases of one source are not independent


def names_of_model(model: Backbone) -> tuple[tuple[str, ...], bool]:
    """Return the names that a model chooses from, and whether they are its own.

    Its own are in ``vocabulary.txt`` next to its weights; else they are the bundled model's.
    """
    spec = model.spec
    if spec is None or not spec.source:
        return NAMES, False
    file = (bundled_folder() if spec.bundled else Path(spec.source)) / VOCABULARY_FILE
    if not file.is_file():
        return NAMES, False
    names = tuple(name for name in file.read_text("utf-8").splitlines() if name)
    if (count := len(with_drawings(names))) < 6:
        raise InputError(
            f"{file.name} of {model.name} holds {count} names with drawings; scenes need six."
        )
    return names, True


def with_drawings(names: Sequence[str]) -> tuple[Name, ...]:
    """Return those of some names that have drawings."""
    return tuple(name for name in OBJECTS if name.name in names)


def draw_scenes(
    drawings: Drawings, count: int, objects: int, split: str = "test", skip: int = 0
) -> Iterator[Case]:
    """Draw scenes of a split with a number of objects; ``skip`` seeds are left out."""
    sprites, names = drawings
    seed = 100_000 * objects + skip
    for _ in range(count):
        while True:
            counts = torch.tensor([objects])
            scene = compose(sprites, generator(split, seed), counts, (SIDE, SIDE), look=LOOK)
            seed += 1
            masks = scene.visible[0].numpy() > 0.5
            if masks.mean((1, 2)).min() >= LEAST:
                break
        image = (scene.images[0].permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
        yield Case(image, masks, names[scene.labels[0].numpy()], f"{split} {seed - 1}")


def bundled_drawings(model: Backbone, names: Sequence[str]) -> Drawings:
    """Cut the drawings out of the package's sample scenes: no network, no renderer."""
    scenes = [load_scene(name) for name in scene_names()]
    with_drawing = [name.name for name in with_drawings(names)]
    in_scenes: set[str] = set()
    for scene in scenes:
        in_scenes.update(scene.truth.values())
    shown = [name for name in with_drawing if name in in_scenes]
    if len(shown) < 5:
        raise InputError(
            f"{model.name} knows {len(shown)} of the names in the sample scenes; it takes five."
        )
    sprites = np.zeros((len(scenes), len(shown), CUT_OUT, CUT_OUT, 4), np.uint8)
    for style, scene in enumerate(scenes):
        for region, name in scene.truth.items():
            if name in shown:
                sprites[style, shown.index(name)] = _cut(scene.image, scene.regions == region)
    return pyramid(sprites, levels=3), np.array([names.index(name) for name in shown])


def _cut(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Cut one object out onto a transparent square that it fills, (128, 128, 4)."""
    from PIL import Image

    ys = np.flatnonzero(mask.any(1))
    xs = np.flatnonzero(mask.any(0))
    box = (slice(ys[0], ys[-1] + 1), slice(xs[0], xs[-1] + 1))
    cut = np.concatenate([image[box], 255 * mask[box][..., None].astype(np.uint8)], 2)
    side = max(cut.shape[:2])
    square = np.zeros((side, side, 4), np.uint8)
    y = (side - cut.shape[0]) // 2
    x = (side - cut.shape[1]) // 2
    square[y : y + cut.shape[0], x : x + cut.shape[1]] = cut
    small = Image.fromarray(square).convert("RGBa").resize((CUT_OUT, CUT_OUT))
    return np.asarray(small.convert("RGBA"), np.uint8)


class DrawnScenes(Dataset):
    """New scenes of the test split, each with several of the bundled drawings."""

    def __init__(self, model: Backbone, scenes: int = 40) -> None:
        self.name = "scenes"
        self.classes = names_of_model(model)[0]
        self._model = model
        self._count = scenes

    def keys(self) -> Sequence[str]:
        """Return the numbers of the scenes."""
        return [f"{number:04d}" for number in range(self._count)]

    def content(self, key: str) -> str:
        """Return a hash of the drawings and their names."""
        drawn = self.read(key)
        pixels = blake2b(drawn.image.tobytes()).hexdigest()
        labels = drawn.labels.tolist()
        return content_of(pixels=pixels, labels=labels)

    def read(self, key: str) -> Sample:
        """Return a scene."""
        return self._drawn[int(key)]

    @cached_property
    def _drawn(self) -> list[Sample]:
        """All scenes: a scene's seed depends on those before it."""
        drawings = bundled_drawings(self._model, self.classes)
        cases = draw_scenes(drawings, self._count, objects=3)
        return [Sample(case.image, Regions.from_masks(case.masks), case.labels) for case in cases]


# -- real images ------------------------------------------------------------------------------


class RealDomains(Dataset):
    """Test images of one kind, with some regions of each class; each region in a window."""

    context = 2.0

    def __init__(self, data: Path, split: str, spec: DatasetSpec, *, per_class: int = 8) -> None:
        self.name = spec.name
        self._most = per_class
        files = {file.stem: file for file in files_of(data, "test", spec.name)}
        self._images = dict(sorted(files.items()))
        if not self._images:
            raise InputError(
                f"{data} has no images of {FOLDERS[spec.name]}/images; name the folder that holds "
                "it."
            )
        names = [name for name in REAL if name.group == spec.name]
        self.classes = tuple(name.name for name in names)
        self.template = names[0].templates[0]
        self._first = REAL.index(names[0])

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        return [annotation_of(self._images[key], self.name)], {"most": self._most}

    def read(self, key: str) -> Sample:
        """Read an image and some regions of each class."""
        file = self._images[key]
        picture = read_picture(file, self.name, key)
        if picture is None or not len(picture.boxes):
            raise BadRecordError(f"{key}: {file.name} has no region of use.")
        rng = np.random.default_rng(list(key.encode()))
        chosen: list[int] = []
        for label in np.unique(picture.labels):
            places = np.flatnonzero(picture.labels == label)
            chosen += rng.permutation(places)[: self._most].tolist()
        drawn: list[tuple[Region | None, int]] = []
        for place in sorted(chosen):
            y0, x0, y1, x1 = (int(edge) for edge in picture.boxes[place])
            mask = picture.mask(place, y0, x0, y1 - y0, x1 - x0) > 0.5
            region = None
            if mask.any():
                region = Region(place + 1, (y0, x0, y1, x1), mask)
            drawn.append((region, int(picture.labels[place]) - self._first))
        return assemble(picture.pixels, drawn)


def read_picture(file: Path, kind: str, record: str) -> Picture | None:
    """Read one image and its annotation; None if it is not annotated."""
    with opening(file, record, "image"):
        pixels = pixels_of(file)
    with opening(annotation_of(file, kind), record, "annotation"):
        return annotated(file, kind, pixels)
