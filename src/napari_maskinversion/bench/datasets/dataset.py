"""Images with known regions: what every reader of a data set has, and how it reads files.

To read another data set, write a subclass of `Dataset` and an entry in ``sets.yaml``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import read_text
from ...base.regions import Region, Regions
from ...base.wording import one_line
from ...engine.methods.edits import cut_box
from ...images.decoding import decode
from ...images.opening import read_plane

LEAST_WINDOW: Final = 32  # pixels


class BadRecordError(InputError):
    """A record of a data set that cannot be used; the message names file and record."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One image and its regions."""

    image: NDArray[Any]  # (H, W, 3)
    regions: Regions
    labels: NDArray[np.int64]  # (M,), int64. Index of each region's class.
    # Sentences about this image, each with the index of its region
    expressions: tuple[tuple[str, int], ...] = ()
    small: int = 0  # Number of regions left out because they are too small


class Dataset:
    """Images with regions, read one by one; a reader fills ``_images`` and writes two methods."""

    name: str
    classes: tuple[str, ...]  # Candidate names, in words
    template = "a photo of a {}"  # Prompt with ``{}`` for the class
    # Side of each region's window as a multiple of its box; None shows the whole image
    context: float | None = None
    _images: dict[str, Path]  # The images by name, in the order in which they are measured

    def keys(self) -> Sequence[str]:
        """Return the names of the images, always in the same order, without reading pixels."""
        return list(self._images)

    def read(self, key: str) -> Sample:
        """Read one image and its regions."""
        with opening(self._images[key], key, "image"):
            image = read_plane(self._images[key])
        try:
            return self._sample(key, image)
        except BadRecordError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
            why = one_line(error).rstrip(".")
            raise BadRecordError(f"{key}: its annotation does not fit the set ({why}).") from error

    def content(self, key: str) -> str:
        """Return a hash of an image's pixels, masks and labels, see `content_of`."""
        files, rows = self._annotation(key)
        return content_of(self._images[key], *files, **rows)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        """Return the files, and other JSON values, that say where an image's regions are."""
        raise NotImplementedError

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        """Add its regions to an image."""
        raise NotImplementedError


def content_of(*files: Path, **other: Any) -> str:
    """Return 16 hexadecimal digits of the contents of files and other JSON values.

    Names, folders and times of files do not count. Empty if a file cannot be read.
    """
    digest = blake2b(digest_size=8)
    try:
        for file in files:
            with file.open("rb") as stream:
                digest.update(file_digest(stream, blake2b).digest())
    except OSError:
        return ""
    digest.update(json.dumps(other, sort_keys=True).encode())
    return digest.hexdigest()


# -- reading files ----------------------------------------------------------------------------


@contextmanager
def opening(file: Path, record: str, kind: str) -> Generator[None, None, None]:
    """Turn all errors of reading a file in the block into `BadRecordError`, but for memory."""
    try:
        yield
    except Exception as error:
        # Decoders have errors of their own: zlib's and LZW's are RuntimeErrors.
        if isinstance(error, InputError) and error.__cause__:
            said = error.__cause__
        else:
            said = error
        if isinstance(said, MemoryError):
            raise said from None
        if isinstance(said, InputError):
            why = str(said)
        elif isinstance(said, FileNotFoundError):
            why = f"there is no {kind} {said.filename or file}."
        else:
            why = f"{file} is broken or no image ({said})."
        raise BadRecordError(f"{record}: {why}") from None


def read_labels(file: Path, record: str, *, colours: str = "") -> NDArray[Any]:
    """Read an image of integers unchanged; ``colours`` says why (H, W, 3) would be wrong."""
    with opening(file, record, "annotation"):
        pixels = decode(file, "masks", colours=False)
    if pixels.dtype.kind not in "iub":
        raise BadRecordError(f"{record}: {file} holds {pixels.dtype}, not whole numbers.")
    if colours and pixels.ndim != 2:
        raise BadRecordError(f"{record}: {file} has colours; {colours}.")
    return pixels


def read_lines(file: Path, kind: str) -> list[str]:
    """Read the lines of a text that are not empty, without the spaces around them."""
    lines = []
    for line in read_text(file, kind).splitlines():
        if line.strip():
            lines.append(line.strip())
    if not lines:
        raise InputError(f"{file} ({kind}) is empty.")
    return lines


# -- checks -----------------------------------------------------------------------------------


def check_size(mask: tuple[int, ...], image: tuple[int, ...], file: Path, record: str) -> None:
    """Refuse masks whose size differs from their image."""
    if tuple(mask[:2]) != tuple(image[:2]):
        raise BadRecordError(
            f"{record}: the masks in {file} are {mask[0]} x {mask[1]} px and reach outside the "
            f"image, or leave some of it out: it has {image[0]} x {image[1]} px."
        )


def check_there(files: Collection[Path], kind: str, title: str) -> None:
    """Refuse a set with missing files before anything is read; each folder is listed once."""
    folders = {file.parent for file in files}
    there = {}
    for folder in folders:
        if folder.is_dir():
            there[folder] = set(folder.iterdir())
        else:
            there[folder] = set()
    missing = [file for file in files if file not in there[file.parent]]
    if missing:
        raise InputError(
            f"{title} is not complete: {len(missing)} of {len(files)} {kind} are missing, such as "
            f"{missing[0]}; unpack its archive again."
        )


def check_classes(classes: Sequence[str], origin: Path) -> tuple[str, ...]:
    """Refuse an invalid list of classes."""
    twice = sorted(name for name, times in Counter(classes).items() if times > 1)
    if len(classes) < 2 or twice:
        if twice:
            why = f"names {twice[0]!r} twice"
        else:
            why = f"has {len(classes)} classes"
        raise InputError(f"{origin} {why}; a measurement needs two different ones or more.")
    return tuple(classes)


# -- samples ----------------------------------------------------------------------------------


def assemble(image: NDArray[Any], drawn: Sequence[tuple[Region | None, int]]) -> Sample:
    """Return an image with those of its regions that have a pixel; the others are counted."""
    kept = [(region, label) for region, label in drawn if region is not None]
    shape = (int(image.shape[0]), int(image.shape[1]))
    regions = Regions(shape, [region for region, _ in kept])
    labels = np.array([label for _, label in kept], np.int64)
    return Sample(image, regions, labels, small=len(drawn) - len(kept))


def class_regions(image: NDArray[Any], classes: NDArray[Any]) -> Sample:
    """Return an image with one region for each class in its class map.

    ``classes`` (H, W) holds the place of the class plus 1, and 0 for none.
    """
    regions = Regions.from_labels(classes)
    return Sample(image, regions, np.array(regions.ids, np.int64) - 1)


def own_expressions(sample: Sample, classes: Sequence[str], template: str) -> Sample:
    """Add sentences to a sample without any: one for each class with a single region."""
    if sample.expressions or len(sample.regions) < 2:
        return sample
    values, places, counts = np.unique(sample.labels, return_index=True, return_counts=True)
    sentences = []
    for value, place, count in zip(values, places, counts, strict=True):
        if count == 1:
            sentences.append((template.format(classes[int(value)]), int(place)))
    return replace(sample, expressions=tuple(sentences))


def windowed(sample: Sample, context: float) -> Iterator[Sample]:
    """Show each region in a square window of its own, ``context`` times its box."""
    for place, region in enumerate(sample.regions):
        y0, x0, y1, x1 = region.bbox
        factor = max(context, LEAST_WINDOW / max(y1 - y0, x1 - x0))
        top, left, bottom, right = cut_box(region.bbox, sample.regions.shape, factor)
        box = (y0 - top, x0 - left, y1 - top, x1 - left)
        cut = Regions((bottom - top, right - left), [Region(region.id, box, region.mask)])
        pixels = sample.image[top:bottom, left:right]
        yield Sample(pixels, cut, sample.labels[place : place + 1])
