"""What is exported (results, masks, decisions), and what an export format is.

A format writes one image. What it does with many images is its `ManyImages`: it joins them in one
file, or a folder has a file for each of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base.errors import ConfigError, InputError
from ...base.identity import ImageIdentity, Position
from ...base.regions import Region
from ...base.validation import encodable
from ...regions.label_images import PlaneRegions
from ..recipe import Recipe
from ..results import Results
from ..spaces import smaller_inputs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class CompressedRegion:
    """A region whose mask is compressed."""

    id: int
    bbox: tuple[int, int, int, int]  # ``(y0, x0, y1, x1)``, as in `Region`
    data: bytes  # Compressed: bits of a bool mask, or float32 coverage
    coverage: bool = False  # Whether `data` is coverage
    members: tuple[int, ...] = ()

    @classmethod
    def of(cls, region: Region) -> CompressedRegion:
        """Compress a region."""
        coverage = region.mask.dtype.kind != "b"
        if coverage:
            mask = region.mask.astype("<f4")
        else:
            mask = np.packbits(region.mask)
        box = tuple(int(edge) for edge in region.bbox)
        data = zlib.compress(mask.tobytes(), 1)
        return cls(region.id, (box[0], box[1], box[2], box[3]), data, coverage, region.members)

    def unpack(self) -> Region:
        """Return the region, decompressed."""
        y0, x0, y1, x1 = self.bbox
        shape = (y1 - y0, x1 - x0)
        pixels = shape[0] * shape[1]
        size = 4 * pixels if self.coverage else -(-pixels // 8)
        try:
            # At most one byte more than there must be: data may be made to fill the memory.
            raw = zlib.decompressobj().decompress(self.data, size + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if len(raw) != size:
            raise ValueError(f"its mask does not have {shape[0]} x {shape[1]} px")
        if self.coverage:
            mask = np.frombuffer(raw, "<f4").reshape(shape).astype(np.float32)
        else:
            bits = np.frombuffer(raw, np.uint8)
            mask = np.unpackbits(bits, count=pixels).reshape(shape).astype(bool)
        return Region(self.id, self.bbox, mask, self.members)


Masks = Mapping[tuple[Position, int], CompressedRegion]
"""Masks of regions by plane and id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Results and everything that is exported with them."""

    results: Results
    # The regions of the run by plane and id, see `compress_masks`; empty if unknown
    masks: Masks = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)  # The inputs (file names, hashes)
    image: ImageIdentity = field(default_factory=ImageIdentity)
    # Extra columns of the table, one value a region, such as decisions
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    # Extra JSON entries, one mapping a region; empty for none
    records: Sequence[Mapping[str, Any]] = ()
    decisions: bytes = b""  # The decision log of a review, see `Review.saved`
    # Write texts to CSV files as they are, also those that a spreadsheet would run
    raw_csv: bool = False
    polygons: bool = False  # Write masks in COCO as polygons, not as run lengths

    @property
    def recipe(self) -> Recipe:
        """What the results were made from: image and regions, and the space of the embeddings."""
        info = self.results.info
        halved = smaller_inputs(self.results)
        space = Recipe.of_space(
            info.settings, info.fingerprint, halved, method_sha256=info.method_sha256
        )
        return inputs_recipe(self.source, self.masks).joined(space)

    def region_masks(self) -> list[CompressedRegion | None]:
        """Return the mask of each region; None where it is unknown."""
        return [self.masks.get((region.position, region.id)) for region in self.results.regions]

    def accepted(self) -> Bundle:
        """Return the accepted regions only."""
        states = self.columns.get("decision", ())
        rows = [row for row, state in enumerate(states) if state == "accepted"]
        if not rows:
            raise InputError("No region is accepted; review the results, or export all regions.")
        regions = tuple(self.results.regions[row] for row in rows)
        places = {(region.position, region.id) for region in regions}
        columns = {}
        for name, values in self.columns.items():
            columns[name] = [values[row] for row in rows]
        records: Sequence[Mapping[str, Any]] = ()
        if self.records:
            records = [self.records[row] for row in rows]
        return replace(
            self,
            results=replace(self.results, regions=regions),
            masks={place: mask for place, mask in self.masks.items() if place in places},
            columns=columns,
            records=records,
        )

    def table(self) -> pd.DataFrame:
        """Return the results table with the extra columns."""
        columns = {name: list(map(encodable, values)) for name, values in self.columns.items()}
        return self.results.to_frame().assign(**columns)

    def provenance(self) -> dict[str, Any]:
        """Return how the results were computed, and from what."""
        return self.results.info.provenance(self.source)


def compress_masks(
    planes: Iterable[PlaneRegions | Any],
) -> dict[tuple[Position, int], CompressedRegion]:
    """Return the compressed regions of planes, by plane and id."""
    masks = {}
    for plane in planes:
        for region in plane.regions:
            masks[(plane.position, region.id)] = CompressedRegion.of(region)
    return masks


def inputs_recipe(source: Mapping[str, Any], masks: Masks) -> Recipe:
    """Return what the inputs of a run say: image, channels, regions."""
    image = source.get("image")
    if isinstance(image, Mapping):  # Renamed, it is the same image
        image = {key: value for key, value in image.items() if key != "file"}
    channels = source.get("channels", "")
    return Recipe(image={"image": image, "channels": channels}, regions={"regions": dict(masks)})


class ImageOfMany(NamedTuple):
    """An image among many, as their project has it."""

    name: str  # Which no other image has
    stem: str  # The same, as the beginning of a file's name that all file systems can hold
    number: int  # Its place in the project, from 1
    path: str  # Its path in the project
    series: int | None  # Which one of its file it is; None if the file has one


AddImage = Callable[[ImageOfMany, Bundle], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyImages:
    """What a format does with many images."""

    title: str  # Name in the menu
    file: str  # Default name of the file or folder
    # Given the path, yields what adds an image. All images are written when the block ends, or
    # none if it ends by an error
    writing: Callable[[Path], AbstractContextManager[AddImage]]
    # Returns the names of what this program did not write to a folder; None where it is a file
    foreign_files: Callable[[Path], list[str]] | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it writes a folder of files."""
        return self.foreign_files is not None


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """One export format."""

    name: str  # Name on the command line
    title: str  # Name in the menu
    file: str  # Default name of its (first) file
    # Writes a `Bundle` to the path of that file, whole or not at all
    write: Callable[[Bundle, Path], None]
    # Returns the paths of the other files it writes, given the first one's
    more_files: Callable[[Path], tuple[Path, ...]] = lambda _: ()
    applies: Callable[[Results], bool] = lambda _: True  # Whether results have what it writes
    needs: tuple[str, ...] = ()  # Modules of the extra ``spatial`` that it imports
    many: ManyImages | None = None  # How it joins many images; None: a folder with a file for each

    def check(self) -> None:
        """Refuse a format whose packages are not installed."""
        missing = [module for module in self.needs if find_spec(module) is None]
        if missing:
            raise ConfigError(
                f"The format {self.name} needs {', '.join(missing)}; install the extra: "
                'pip install "napari-maskinversion[spatial]"'
            )

    @property
    def suffix(self) -> str:
        """The suffix of its (first) file."""
        return Path(self.file).suffix

    @property
    def suffixes(self) -> str:
        """All suffixes of its (first) file, such as ``.ome.zarr``."""
        return "".join(Path(self.file).suffixes)

    def files(self, path: Path) -> list[Path]:
        """Return all files that writing to a path makes."""
        return [path, *self.more_files(path)]
