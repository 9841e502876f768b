"""RefCOCO and RefCOCO+: sentences about things in photographs of COCO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ...base.errors import InputError
from ...base.reading import check_file, validated
from ...base.regions import Region, Regions
from ...regions.plain_pickle import PlainPickleError, load_plain
from ..content import content_of
from .coco_instances import Instance, InstanceFile
from .layouts import Layout
from .protocol import BadRecordError, Sample
from .reading import check_size, check_there, read_pixels

_MOST = 2**30  # bytes of a pickle


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


class RefCoco:
    """``refcoco/`` with ``instances.json`` and ``refs(unc).p``, and the images of COCO train2014.

    The regions of an image are all its instances; crowds only where a sentence is about one.
    """

    template = "a photo of a {}"
    context: float | None = None

    def __init__(self, data: Path, split: str, layout: Layout) -> None:
        parts = layout.locate(data, split)
        self.name = f"{layout.title.lower()} {split}"
        self._folder = parts["images"][0]
        self._file = InstanceFile(parts["masks"][0])
        self.classes = self._file.classes
        pickled = parts["expressions"][0]
        of_split = split.removeprefix("google-")
        references = [one for one in _references(pickled) if one.split == of_split]
        if not references:
            raise InputError(f"{pickled} has no expression of split {of_split!r}.")
        self._references: dict[int, list[_Reference]] = {}
        for one in references:
            if one.ann_id not in {known.id for known in self._file.instances.get(one.image_id, ())}:
                raise InputError(
                    f"{pickled}: expression {one.ref_id} is about annotation {one.ann_id} of image "
                    f"{one.image_id}, which {self._file.file} does not list."
                )
            self._references.setdefault(one.image_id, []).append(one)
        self._images = {self._file.images[number].key: number for number in self._references}
        check_there([self._image(key) for key in self._images], f"images of {split}", layout.title)

    def _image(self, key: str) -> Path:
        return self._folder / Path(self._file.images[self._images[key]].file_name).name

    def _instances(self, key: str) -> list[Instance]:
        number = self._images[key]
        named = {one.ann_id for one in self._references[number]}
        instances = self._file.instances[number]
        return [one for one in instances if not one.iscrowd or one.id in named]

    def keys(self) -> Sequence[str]:
        """Return the names of the images without suffix."""
        return sorted(self._images)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        rows = [asdict(one) for one in self._instances(key)]
        said = [asdict(one) for one in self._references[self._images[key]]]
        return content_of(self._image(key), rows=rows, said=said)

    def read(self, key: str) -> Sample:
        """Read an image, its instances, and the sentences about them."""
        listed = self._file.images[self._images[key]]
        image = read_pixels(self._image(key), key)
        shape = (listed.height, listed.width)
        check_size(shape, image.shape, self._file.file, key)
        regions: list[Region] = []
        labels: list[int] = []
        places: dict[int, int] = {}
        instances = self._instances(key)
        for one in instances:
            region = self._file.region(one, listed)
            if region is not None:
                places[one.id] = len(regions)
                regions.append(region)
                labels.append(self._file.place(one))
        expressions = []
        for reference in self._references[listed.id]:
            if reference.ann_id not in places:
                raise BadRecordError(
                    f"{key}: annotation {reference.ann_id} of {self._file.file} has no pixel, but "
                    f"expression {reference.ref_id} is about it."
                )
            place = places[reference.ann_id]
            expressions += [(one.sent, place) for one in reference.sentences if one.sent.strip()]
        return Sample(
            image,
            Regions(shape, regions),
            np.array(labels, np.int64),
            expressions=tuple(expressions),
            small=len(instances) - len(regions),
        )


def _references(file: Path) -> list[_Reference]:
    check_file(file, "file of expressions", most=_MOST)
    try:
        with file.open("rb") as stream:
            rows = load_plain(stream)
    except (PlainPickleError, OSError) as error:
        raise InputError(
            f"{file} is damaged, or no list of expressions ({error}); unpack its archive again."
        ) from None
    return validated(list[_Reference], rows, file)
