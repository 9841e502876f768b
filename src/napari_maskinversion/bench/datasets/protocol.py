"""The protocol of a data set: images with known regions.

To read another data set, write a class with four attributes and three methods; see `Dataset`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.regions import Region, Regions
from ...engine.methods.edits import cut_box

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


class Dataset(Protocol):
    """Images with regions, read one by one."""

    name: str
    classes: tuple[str, ...]  # Candidate names, in words
    template: str  # Prompt with ``{}`` for the class
    # Side of each region's window as a multiple of its box; None shows the whole image
    context: float | None

    def keys(self) -> Sequence[str]:
        """Names of the images, always in the same order, without reading pixels."""

    def content(self, key: str) -> str:
        """Return a hash of an image's pixels, masks and labels, see `content_of`.

        Empty if something cannot be read.
        """

    def read(self, key: str) -> Sample:
        """Read one image."""


def check_classes(classes: Sequence[str], origin: Path) -> tuple[str, ...]:
    """Refuse an invalid list of classes."""
    twice = sorted(name for name, times in Counter(classes).items() if times > 1)
    if len(classes) < 2 or twice:
        why = f"names {twice[0]!r} twice" if twice else f"has {len(classes)} classes"
        raise InputError(f"{origin} {why}; a measurement needs two different ones or more.")
    return tuple(classes)


def check_template(template: str) -> None:
    """Refuse a prompt without exactly one ``{}`` for the class, or with other braces."""
    try:
        good = template.format("x") == template.replace("{}", "x") and template.count("{}") == 1
    except (LookupError, ValueError, AttributeError, TypeError):
        good = False
    if not good:
        raise InputError(
            f"--template needs {{}} where the class stands, once, and no other braces; got "
            f"{template!r}."
        )


def own_expressions(sample: Sample, classes: Sequence[str], template: str) -> Sample:
    """Add sentences to a sample without any: one for each class with a single region."""
    if sample.expressions or len(sample.regions) < 2:
        return sample
    values, places, counts = np.unique(sample.labels, return_index=True, return_counts=True)
    expressions = tuple(
        (template.format(classes[int(value)]), int(place))
        for value, place, count in zip(values, places, counts, strict=True)
        if count == 1
    )
    return replace(sample, expressions=expressions)


def windowed(sample: Sample, context: float) -> Iterator[Sample]:
    """Show each region in a square window of its own, ``context`` times its box."""
    height, width = sample.regions.shape
    for place, region in enumerate(sample.regions):
        y0, x0, y1, x1 = region.bbox
        longest = max(y1 - y0, x1 - x0)
        factor = max(context, LEAST_WINDOW / longest)
        top, left, bottom, right = cut_box(region.bbox, (height, width), factor)
        box = (y0 - top, x0 - left, y1 - top, x1 - left)
        cut = Regions((bottom - top, right - left), [Region(region.id, box, region.mask)])
        pixels = sample.image[top:bottom, left:right]
        yield Sample(pixels, cut, sample.labels[place : place + 1])
