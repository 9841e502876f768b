"""Data sets whose annotations are one file: COCO instances and panoptic, RefCOCO, PhraseCut."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import MOST_JSON, check_file, read_json, validated
from ...base.regions import Region
from ...regions.annotations.coco import read_segmentation
from ...regions.plain_pickle import PlainPickleError, load_plain
from .dataset import (
    BadRecordError,
    Dataset,
    Sample,
    assemble,
    check_classes,
    check_size,
    check_there,
    read_labels,
)
from .registry import DatasetSpec

_MOST_PICKLE: Final = 2**30  # bytes


@dataclass(frozen=True, slots=True)
class _Category:
    id: int
    name: str


# -- instances --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    id: int
    file_name: str
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class _Instance:
    id: int
    image_id: int
    category_id: int
    segmentation: Any  # checked when it is drawn
    iscrowd: int = 0


@dataclass(frozen=True, slots=True)
class _Instances:
    images: list[_Listed]
    annotations: list[_Instance]
    categories: list[_Category]


class CocoInstances(Dataset):
    """``coco/annotations/instances_SPLIT.json`` and the images in ``coco/SPLIT``.

    Images without a region are left out; so are crowds.
    """

    _part = "annotations"

    def __init__(self, data: Path, split: str, spec: DatasetSpec) -> None:
        self.name = f"{spec.name} {split}"
        parts = spec.locate(data, split)
        self._file = file = parts[self._part][0]
        page = validated(_Instances, read_json(file, most=MOST_JSON), file)
        categories = sorted(page.categories, key=lambda category: category.id)
        self.classes = check_classes([category.name for category in categories], file)
        self._places = {category.id: place for place, category in enumerate(categories)}
        listed = {image.id: image for image in page.images}
        annotations: dict[int, list[_Instance]] = {number: [] for number in listed}
        for annotation in page.annotations:
            if annotation.category_id not in self._places or annotation.image_id not in listed:
                raise InputError(
                    f"{file}: annotation {annotation.id} is of category {annotation.category_id} "
                    f"in image {annotation.image_id}, and the file does not list both."
                )
            annotations[annotation.image_id].append(annotation)
        chosen = self._choose(annotations, parts, split)
        keys = {Path(listed[number].file_name).stem: number for number in chosen}
        self._listed = {key: listed[keys[key]] for key in sorted(keys)}
        self._instances = {key: chosen[image.id] for key, image in self._listed.items()}
        self._images = {
            key: parts["images"][0] / Path(image.file_name).name
            for key, image in self._listed.items()
        }
        check_there(list(self._images.values()), f"images of {split}", spec.title)

    def _choose(
        self,
        annotations: dict[int, list[_Instance]],
        parts: dict[str, tuple[Path, ...]],
        split: str,
    ) -> dict[int, list[_Instance]]:
        """Return the annotations that are regions, by the numbers of the images of the split."""
        chosen = {}
        for number, rows in annotations.items():
            single = [annotation for annotation in rows if not annotation.iscrowd]
            if single:
                chosen[number] = single
        return chosen

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        return [], {"rows": [asdict(instance) for instance in self._instances[key]]}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        shape = (self._listed[key].height, self._listed[key].width)
        check_size(shape, image.shape, self._file, key)
        drawn = []
        for instance in self._instances[key]:
            parts = instance.segmentation
            if isinstance(parts, list):  # some polygons of COCO have two corners
                parts = [part for part in parts if not isinstance(part, list) or len(part) >= 6]
            drawn.append((_drawn(instance.id, parts, shape), self._places[instance.category_id]))
        return assemble(image, drawn)


def _drawn(number: int, parts: Any, shape: tuple[int, int]) -> Region | None:
    """Draw a segmentation of COCO; None if it has no pixel."""
    if parts == []:
        return None
    return read_segmentation(number, parts, shape)


# -- expressions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sentence:
    sent: str


@dataclass(frozen=True, slots=True)
class _Reference:
    """Sentences about one annotation."""

    ref_id: int
    ann_id: int
    image_id: int
    split: str
    sentences: list[_Sentence]


class RefCoco(CocoInstances):
    """``refcoco/`` with ``instances.json`` and ``refs(unc).p``, and the images of COCO train2014.

    The regions of an image are all its instances; crowds only where a sentence is about one.
    """

    _part = "masks"

    def _choose(
        self,
        annotations: dict[int, list[_Instance]],
        parts: dict[str, tuple[Path, ...]],
        split: str,
    ) -> dict[int, list[_Instance]]:
        pickled = parts["expressions"][0]
        of_split = split.removeprefix("google-")
        references = []
        for reference in _references(pickled):
            if reference.split == of_split:
                references.append(reference)
        if not references:
            raise InputError(f"{pickled} has no expression of split {of_split!r}.")
        self._said: dict[int, list[_Reference]] = {}
        for reference in references:
            listed = annotations.get(reference.image_id, ())
            if reference.ann_id not in {annotation.id for annotation in listed}:
                raise InputError(
                    f"{pickled}: expression {reference.ref_id} is about annotation "
                    f"{reference.ann_id} of image {reference.image_id}, which {self._file} does "
                    "not list."
                )
            self._said.setdefault(reference.image_id, []).append(reference)
        named = {reference.ann_id for reference in references}
        chosen: dict[int, list[_Instance]] = {}
        for number in self._said:
            chosen[number] = []
            for annotation in annotations[number]:
                if not annotation.iscrowd or annotation.id in named:
                    chosen[number].append(annotation)
        return chosen

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        files, rows = super()._annotation(key)
        return files, rows | {
            "said": [asdict(reference) for reference in self._said[self._listed[key].id]]
        }

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        sample = super()._sample(key, image)
        places = {number: place for place, number in enumerate(sample.regions.ids)}
        expressions = []
        for reference in self._said[self._listed[key].id]:
            texts = []
            for said in reference.sentences:
                if said.sent.strip():
                    texts.append(said.sent)
            expressions += [(text, places[reference.ann_id]) for text in texts]
        return replace(sample, expressions=tuple(expressions))


def _references(file: Path) -> list[_Reference]:
    check_file(file, "file of expressions", most=_MOST_PICKLE)
    try:
        with file.open("rb") as stream:
            rows = load_plain(stream)
    except (PlainPickleError, OSError) as error:
        raise InputError(
            f"{file} is damaged, or no list of expressions ({error}); unpack its archive again."
        ) from None
    return validated(list[_Reference], rows, file)


@dataclass(frozen=True, slots=True)
class _Size:
    """One image; the file lists those of all splits."""

    image_id: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Phrase:
    """One phrase and the polygons of the things that it means, [x, y] of each corner."""

    task_id: int | str
    image_id: int
    phrase: str
    Polygons: list[list[list[tuple[float, float]]]]
    phrase_structure: Any = None

    @property
    def word(self) -> str:
        """The thing's name without attributes and relations; the phrase where there is none."""
        structure = self.phrase_structure
        name = None
        if isinstance(structure, dict):
            name = structure.get("name")
        if isinstance(name, str) and name:
            return name
        return self.phrase


class PhraseCut(Dataset):
    """``VGPhraseCut_v0/`` with ``refer_SPLIT.json`` and ``images/``.

    Every phrase has a region: all things that it means, together.
    """

    def __init__(self, data: Path, split: str, spec: DatasetSpec) -> None:
        self.name = f"phrasecut {split}"
        parts = spec.locate(data, split)
        self._file = parts["phrases"][0]
        self._sizes = parts["sizes of images"][0]
        phrases = validated(list[_Phrase], read_json(self._file, most=MOST_JSON), self._file)
        listed = validated(list[_Size], read_json(self._sizes, most=MOST_JSON), self._sizes)
        self._shapes = {str(size.image_id): (size.height, size.width) for size in listed}
        self._phrases: dict[str, list[_Phrase]] = {}
        for phrase in phrases:
            if str(phrase.image_id) not in self._shapes:
                raise InputError(
                    f"{self._file}: phrase {phrase.task_id} is about image {phrase.image_id}, "
                    f"which {self._sizes.name} does not list."
                )
            self._phrases.setdefault(str(phrase.image_id), []).append(phrase)
        self.classes = check_classes(sorted({phrase.word for phrase in phrases}), self._file)
        folders = parts["images"]
        names = {}
        for folder in folders:
            for file in folder.iterdir():
                names[file.name] = file
        self._images = {  # by their numbers in Visual Genome
            key: names.get(f"{key}.jpg", folders[0] / f"{key}.jpg")
            for key in sorted(self._phrases, key=int)
        }
        check_there(list(self._images.values()), f"images of {split}", spec.title)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        return [], {"rows": [asdict(phrase) for phrase in self._phrases[key]]}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        """Add the regions of an image's phrases, and the phrases."""
        shape = self._shapes[key]
        phrases = self._phrases[key]
        check_size(shape, image.shape, self._sizes, key)
        drawn = []
        for number, phrase in enumerate(phrases, 1):
            flat = []
            for polygon in chain.from_iterable(phrase.Polygons):
                if len(polygon) >= 3:
                    flat.append(list(chain.from_iterable(polygon)))
            drawn.append((_drawn(number, flat, shape), self.classes.index(phrase.word)))
        sample = assemble(image, drawn)
        said = []
        for place, number in enumerate(sample.regions.ids):
            said.append((phrases[number - 1].phrase, place))
        return replace(sample, expressions=tuple(said))


# -- panoptic ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PanopticImage:
    id: int
    file_name: str


@dataclass(frozen=True, slots=True)
class _Panoptic:
    images: list[_PanopticImage]
    annotations: list[dict[str, Any]]  # checked one by one: a bad one may be left out
    categories: list[_Category]


@dataclass(frozen=True, slots=True)
class _Segment:
    id: int
    category_id: int
    iscrowd: int = 0


@dataclass(frozen=True, slots=True)
class _Segments:
    """The annotation of one image."""

    file_name: str
    segments_info: list[_Segment] = field(default_factory=list)


class CocoPanoptic(Dataset):
    """A folder with ``images/``, ``panoptic/`` and ``panoptic.json``: every pixel has a class."""

    def __init__(self, data: Path, split: str, spec: DatasetSpec) -> None:
        self.name = spec.name
        inside = data / spec.name
        self._folder = folder = inside if inside.is_dir() else data
        self._file = file = folder / "panoptic.json"
        page = validated(_Panoptic, read_json(file, most=MOST_JSON), file)
        rows = {row.get("image_id"): row for row in page.annotations}
        listed = sorted({Path(image.file_name).stem: image for image in page.images}.items())
        self._rows = {key: rows.get(image.id) for key, image in listed}
        self._images = {key: folder / "images" / image.file_name for key, image in listed}
        categories = {category.id: readable(category.name) for category in page.categories}
        self._places = {number: place for place, number in enumerate(sorted(categories))}
        self.classes = check_classes([categories[number] for number in self._places], file)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        row = self._rows[key]
        name = None if row is None else row.get("file_name")
        files = []
        if isinstance(name, str):
            files = [self._folder / "panoptic" / name]
        return files, {"annotation": row}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        """Add the segments without crowds."""
        about = validated(_Segments, self._rows[key], self._file)
        file = self._folder / "panoptic" / about.file_name
        colours = read_labels(file, key)
        if colours.ndim != 3:
            raise BadRecordError(f"{key}: {file} has no colours, which number the segments.")
        check_size(colours.shape, image.shape, file, key)
        numbers = colours[..., :3].astype(np.int64) @ np.array([1, 256, 65536])
        drawn = []
        for segment in (listed for listed in about.segments_info if not listed.iscrowd):
            region = Region.from_mask(segment.id, numbers == segment.id)
            if region is None:
                raise BadRecordError(f"{key}: segment {segment.id} has no pixel in {file}.")
            drawn.append((region, self._places[segment.category_id]))
        if not drawn:
            raise BadRecordError(f"{key}: panoptic.json lists no segment of this image.")
        return assemble(image, drawn)


def readable(category: str) -> str:
    """Return a category in words: ``"wall-brick"`` is a brick wall, ``"tree-merged"`` a tree."""
    parts = []
    for part in category.split("-"):
        if part not in ("merged", "other", "stuff"):
            parts.append(part)
    return " ".join(reversed(parts))
