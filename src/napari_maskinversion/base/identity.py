"""Identities of regions and images, so that saved decisions are matched with them again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from .progress import with_ticks
from .reading import sha256_of
from .regions import Region

Position = tuple[tuple[str, int], ...]

# Images up to this size in bytes are hashed completely, larger ones by samples.
WHOLE: Final = 16 * 2**20
_SAMPLES: Final = 32
_SIDE: Final = 64  # pixels of a sample along each of the two longest axes
_PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # one an axis


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file; one that has not changed since the last time is not read."""
    about = path.stat()
    return _file_sha256(path, about.st_ino, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)  # more than a model folder has
def _file_sha256(path: Path, *about: int) -> str:
    return sha256_of(path)


@dataclass(frozen=True, slots=True, order=True)
class RegionKey:
    """Id and plane of a region."""

    id: int  # The label value, or the row of the shape
    position: Position = ()  # Its plane, ``(("t", 3), ("z", 12))``; empty for a plain image

    def __str__(self) -> str:
        """Return it as users write it: ``7 at t 3, z 12``."""
        place = place_text(self.position)
        if place:
            return f"{self.id} at {place}"
        return str(self.id)


def place_text(position: Position) -> str:
    """Return a plane as users write it: ``t 3, z 12``, or ``plane 5`` if axes have no names."""
    if len(position) == 1 and position[0][0].startswith("axis "):
        return f"plane {position[0][1]}"
    parts = []
    for axis, number in position:
        colon = ":" if axis.startswith("axis ") else ""
        parts.append(f"{axis}{colon} {number}")
    return ", ".join(parts)


def plane_text(position: Position) -> str:
    """Return a plane as options and tables have it: ``t=3,z=12``."""
    return ",".join(f"{axis}={number}" for axis, number in position)


def plane_of(text: str) -> Position:
    """Return the plane that `plane_text` wrote."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return tuple((axis, int(number)) for axis, _, number in pairs)


@dataclass(frozen=True, slots=True)
class RegionIdentity:
    """A region at the time of a decision."""

    key: RegionKey
    mask: str  # 32 hexadecimal digits: hash of its pixels and their position, not of its id
    box: tuple[int, int, int, int]  # ``(y0, x0, y1, x1)`` in pixels of the plane, end exclusive


def identify(region: Region, position: Position = ()) -> RegionIdentity:
    """Return the identity of a region; takes microseconds for a small one."""
    y0, x0, y1, x1 = (int(edge) for edge in region.bbox)
    digest = hashlib.blake2b(repr((y0, x0, y1, x1, position)).encode(), digest_size=16)
    mask = region.mask
    if mask.dtype == bool:
        digest.update(np.packbits(mask).tobytes())
    else:
        digest.update(mask.astype("<f4").tobytes())
    key = RegionKey(int(region.id), tuple((str(axis), int(number)) for axis, number in position))
    return RegionIdentity(key, digest.hexdigest(), (y0, x0, y1, x1))


def identify_all(regions: Iterable[Region], position: Position = ()) -> list[RegionIdentity]:
    """Return the identities of the regions of one plane."""
    return [identify(region, position) for region in regions]


class ImagePlace(NamedTuple):
    """Where an image is, whatever it shows."""

    path: str  # Absolute, with forward slashes; an address; "" if it is not known
    series: int = 0  # Its number in a file with several

    @property
    def title(self) -> str:
        """What to call it: one of several in a file has a number."""
        if self.series:
            return f"{self.path} ({self.series})"
        return self.path


@dataclass(frozen=True, slots=True)
class ImageIdentity:
    """What an image shows, wherever it is; without values one that is not known."""

    name: str = field(default="", compare=False)  # Of its file or layer, for messages
    shape: tuple[int, ...] = ()
    dtype: str = ""
    content: str = ""  # Hash of its pixels, 32 hexadecimal digits; see `identify_image`


def difference(other: ImageIdentity, image: ImageIdentity) -> str:
    """Describe how another image differs from ``image``."""
    if other.shape != image.shape:
        sizes = [" x ".join(map(str, identity.shape)) for identity in (other, image)]
        return f"{other.name}, {sizes[0]} px; this one has {sizes[1]} px"
    if other.dtype != image.dtype:
        return f"{other.name}, of type {other.dtype}; this one is {image.dtype}"
    return f"{other.name}, of the same size with other pixels"


def another_image(saved: ImageIdentity, image: ImageIdentity) -> str:
    """Describe how the image in a saved file differs from ``image``; "" if it is the same."""
    if not saved.content:
        return "the file does not name its image"
    if saved == image:
        return ""
    return difference(saved, image)


def identify_image(name: str, pixels: Any) -> ImageIdentity:
    """Return the identity of an image without reading all of a large one.

    Up to 16 MiB, every byte counts. Of larger images, 32 blocks of 64 x 64 pixels spread over all
    axes are read: 0.1 to 0.4 MB, from up to 32 chunks of a lazy array (so do not call it on the GUI
    thread). A change outside these blocks goes unnoticed.
    """
    shape = tuple(int(side) for side in pixels.shape)
    dtype = np.dtype(pixels.dtype)
    digest = hashlib.blake2b(digest_size=16)
    is_small = math.prod(shape) * dtype.itemsize <= WHOLE
    if is_small:
        blocks = [(slice(None),) * len(shape)]
    else:
        blocks = list(_samples(shape))
    for block in with_ticks("Samples", blocks):
        part = np.ascontiguousarray(pixels[block])
        digest.update(part.astype(dtype.newbyteorder("<"), copy=False).tobytes())
    return ImageIdentity(name, shape, dtype.newbyteorder("=").name, digest.hexdigest())


def _samples(shape: Sequence[int]) -> Iterable[tuple[slice, ...]]:
    longest = sorted(range(len(shape)), key=lambda axis: -shape[axis])[:2]
    sides = [min(s, _SIDE) if a in longest else 1 for a, s in enumerate(shape)]
    # Colour channels are read together.
    if len(shape) > 2 and shape[-1] <= 4:
        sides[-1] = shape[-1]
    # Irrational steps that never coincide: fractional parts of square roots of primes.
    steps = [math.sqrt(prime) % 1 for prime in _PRIMES[: len(shape)]]
    for sample in range(_SAMPLES):
        starts = []
        for step, whole, side in zip(steps, shape, sides, strict=True):
            starts.append(int((sample * step + 0.5) % 1 * (whole - side + 1)))
        yield tuple(slice(s, s + side) for s, side in zip(starts, sides, strict=True))
