"""Compressed regions, for those that are stored and rarely used."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from ..base.regions import Region


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
        mask = region.mask.astype("<f4") if coverage else np.packbits(region.mask)
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
