"""The measured model, new scenes of what it has names for, and real images: aerial and blood.

Both as cases, one image with the masks in it, for ``bench scenes``, and as data sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from ...demo_model.domains import (
    FOLDERS,
    Picture,
    Split,
    annotated,
    annotation_of,
    files_of,
    pixels_of,
)
from ...demo_model.scenes import SceneStyle, compose, generator, pyramid
from ...demo_model.sprites import SEEN_STYLES, UNSEEN_STYLE, SpriteError, load_sprites
from ...demo_model.vocabulary import NAMES, OBJECTS, REAL, VOCABULARY_FILE, Name
from ...engine.models.backbone import Backbone
from ...engine.models.specs import bundled_folder
from ...images.sample_scenes import load_scene, scene_names
from .base import BadRecordError, Dataset, Sample, assemble, content_of, opening
from .registry import DatasetSpec

PROMPT: Final = "a photo of a {}"
STYLES: Final[dict[str, tuple[str, ...]]] = {"seen": SEEN_STYLES, "unseen": (UNSEEN_STYLE,)}
CUT_OUT: Final = 128  # pixels of a drawing cut out of a sample scene
SIDE: Final = 256  # pixels of a scene
LEAST: Final = 0.008  # visible share of a scene that every object needs
LOOK: Final = SceneStyle(photographs=MEASURING)
CONTEXT: Final = 2.0  # a window's side over the longer side of the region's box
LEAST_WINDOW: Final = {"aerial": 96, "blood": 64, "nuclei": 32}  # pixels


# -- the measured model ------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelUnderTest:
    """A model and its names."""

    model: Backbone
    names: tuple[str, ...]  # Candidate names for regions of drawings
    # Whether the names are the model's own (``vocabulary.txt`` next to its weights). Otherwise the
    # bundled model's names are used.
    taught: bool

    @property
    def drawn(self) -> tuple[Name, ...]:
        """Names that have drawings."""
        return tuple(n for n in OBJECTS if n.name in self.names)

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
    spec = model.spec
    if spec is None or not spec.source:
        return ModelUnderTest(model, NAMES, taught=False)
    file = (bundled_folder() if spec.bundled else Path(spec.source)) / VOCABULARY_FILE
    if not file.is_file():
        return ModelUnderTest(model, NAMES, taught=False)
    names = tuple(name for name in file.read_text("utf-8").splitlines() if name)
    subject = ModelUnderTest(model, names, taught=True)
    if len(subject.drawn) < 6:
        raise InputError(
            f"{file.name} of {model.name} holds {len(subject.drawn)} names with drawings; "
            "scenes need six."
        )
    return subject


# -- drawings ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """One image with its regions."""

    image: NDArray[np.uint8]  # (H, W, 3), uint8
    masks: NDArray[np.bool_]  # (M, H, W), bool
    labels: NDArray[np.int64]  # (M,), int64. Index into the candidate names.
    source: str  # Where it comes from; cases of one source are not independent


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
        seed = (1_000_000 if kind == "unseen" else 0) + 100_000 * objects + skip
        sprites, names = self._bundled if kind == "bundled" else self._rendered(kind)
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

    def _rendered(self, kind: str) -> tuple[Sequence[Tensor], NDArray[np.int64]]:
        """Render every name that the model knows in the styles of a kind, as a pyramid."""
        drawn = self.subject.drawn
        try:
            sprites = load_sprites(self.folder, size=SIDE, names=drawn, styles=STYLES[kind])
        except SpriteError as error:
            raise InputError(str(error)) from None
        except ModuleNotFoundError as error:
            if error.name != "resvg_py":
                raise
            raise InputError(
                "Rendering the emoji drawings needs resvg-py: "
                'pip install "napari-maskinversion[bench]", or use --short.'
            ) from None
        labels = np.array([self.subject.names.index(name.name) for name in drawn])
        return pyramid(sprites, levels=4), labels

    @cached_property
    def _bundled(self) -> tuple[Sequence[Tensor], NDArray[np.int64]]:
        """Cut the drawings out of the package's sample scenes: no network, no renderer."""
        scenes = [load_scene(name) for name in scene_names()]
        known = [n.name for n in self.subject.drawn]
        names = sorted({t for s in scenes for t in s.truth.values() if t in known}, key=known.index)
        if len(names) < 5:
            raise InputError(
                f"{self.subject.model.name} knows {len(names)} of the names in the sample scenes; "
                "--short needs five."
            )
        sprites = np.zeros((len(scenes), len(names), CUT_OUT, CUT_OUT, 4), np.uint8)
        for style, scene in enumerate(scenes):
            for region, name in scene.truth.items():
                if name in names:
                    sprites[style, names.index(name)] = _cut(scene.image, scene.regions == region)
        labels = np.array([self.subject.names.index(name) for name in names])
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


class DrawnScenes(Dataset):
    """New scenes of the test split, each with several of the bundled drawings."""

    def __init__(self, subject: ModelUnderTest, scenes: int = 40, objects: int = 3) -> None:
        self.name, self.classes = "scenes", subject.names
        self._source, self._objects, self._count = SceneSource(subject, None), objects, scenes

    def keys(self) -> Sequence[str]:
        """Return the numbers of the scenes."""
        return [f"{number:04d}" for number in range(self._count)]

    def content(self, key: str) -> str:
        """Return a hash of the drawings and their names."""
        drawn = self.read(key)
        pixels, labels = blake2b(drawn.image.tobytes()).hexdigest(), drawn.labels.tolist()
        return content_of(pixels=pixels, labels=labels)

    def read(self, key: str) -> Sample:
        """Return a scene."""
        return self._drawn[int(key)]

    @cached_property
    def _drawn(self) -> list[Sample]:
        """All scenes: a scene's seed depends on those before it."""
        cases = self._source.draw("bundled", self._count, self._objects)
        return [Sample(case.image, Regions.from_masks(case.masks), case.labels) for case in cases]


# -- real images ------------------------------------------------------------------------------


class RealDomains(Dataset):
    """Test images of one kind, with some regions of each class; each region in a window."""

    context = 2.0

    def __init__(self, data: Path, split: str, spec: DatasetSpec, *, per_class: int = 8) -> None:
        self.name, self._most = spec.name, per_class
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
            raise BadRecordError(f"{key}: {file} has no region of use.")
        rng = np.random.default_rng(list(key.encode()))
        chosen: list[int] = []
        for label in np.unique(picture.labels):
            places = np.flatnonzero(picture.labels == label)
            chosen += rng.permutation(places)[: self._most].tolist()
        drawn: list[tuple[Region | None, int]] = []
        for place in sorted(chosen):
            y0, x0, y1, x1 = (int(edge) for edge in picture.boxes[place])
            mask = picture.mask(place, y0, x0, y1 - y0, x1 - x0) > 0.5
            region = Region(place + 1, (y0, x0, y1, x1), mask) if mask.any() else None
            drawn.append((region, int(picture.labels[place]) - self._first))
        return assemble(picture.pixels, drawn)


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


def read_picture(file: Path, kind: str, record: str) -> Picture | None:
    """Read one image and its annotation; None if it is not annotated."""
    with opening(file, record, "image"):
        pixels = pixels_of(file)
    with opening(annotation_of(file, kind), record, "annotation"):
        return annotated(file, kind, pixels)


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
