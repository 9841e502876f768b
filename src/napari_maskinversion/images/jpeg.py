"""Refuse JPEG data, of a file or of a tile in a TIFF file, whose pixels are damaged."""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil, prod
from typing import Any, Final

_START: Final = b"\xff\xd8"
_LAST: Final = b"\xff\xd9"
_SCAN: Final = 0xDA
_RESTARTS: Final = 0xDD
# A marker among compressed data; zeros and restart markers belong to the data.
_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)
_FIRST_RESTART: Final = 0xD0
_RESTART: Final = re.compile(rb"\xff+[\xd0-\xd7]")
_MOST_PARTS: Final = 20_000  # between restarts, that are looked at one by one
_WIDEST: Final = 65_500  # pixels that libjpeg decodes
_ALONE: Final = {0x00, 0x01, *range(0xD0, 0xDA)}  # markers without a length
_ABOUT: Final = {*range(0xE1, 0xEE), 0xEF, 0xFE}  # profiles, thumbnails, comments
_FRAMES: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL: Final = {0xC0, 0xC1}
_PROGRESSIVE: Final = 0xC2
_PRECISION: Final = 4  # bytes from a frame's marker
_COLOURS: Final = 9  # bytes from a frame's marker to their number
_COLOURS_OF_SCAN: Final = 4  # bytes from a scan's marker
# Optimised tables have codes of zeros for a flat area: these do not always fill up the end.
_PADDINGS: Final = (b"\x00\xff", b"\xff")
_LOOK_AHEAD: Final = 8  # bytes that libjpeg reads before it needs them
_IN_TIFF: Final = {6, 7, 33007, 34892}  # compressions that are JPEG
_SIZED_IN_TIFF: Final = {33003, 33004, 33005, 34712, 34933}  # JPEG 2000, PNG
_MOST_DECLARED: Final = 4  # times the pixels of a tile; the last one may be smaller


def check_jpeg(data: bytes) -> None:
    """Refuse a JPEG whose pixels are damaged, as `is_damaged` sees it."""
    if is_damaged(data):
        raise ValueError("its pixels are damaged; copy it again.")


def check_tiles(pages: Iterable[Any]) -> None:
    """Let pages of an open TIFF file refuse damaged tiles and strips when they are decoded.

    JPEG is looked at as by `is_damaged`. JPEG, JPEG 2000 and PNG that declare more pixels than
    the tile has are refused before a decoder allocates them. WebP and JPEG 2000 have no checksum:
    a damage that leaves valid codes is not seen.
    """
    for page in dict.fromkeys(pages):
        if page.compression in _IN_TIFF | _SIZED_IN_TIFF:
            is_jpeg = page.compression in _IN_TIFF
            page.decode = partial(_check_and_decode, page.decode, page.chunks, is_jpeg)


def _check_and_decode(
    decode: Callable[..., Any],
    shape: Sequence[int],
    is_jpeg: bool,
    data: bytes | None,
    index: int,
    /,
    **options: Any,
) -> Any:
    if data is not None:
        # NDPI is one large JPEG in pieces; tifffile has a header for each.
        stream = (options.get("jpegheader") or b"") + data
        if prod(_declared(stream)) > _MOST_DECLARED * prod(shape):
            raise ValueError("a tile of it declares more pixels than it has; copy it again.")
        if is_jpeg:
            # Tables that all tiles share are a stream of their own.
            check_jpeg((options.get("jpegtables") or b"") + stream)
    return decode(data, index, **options)


def _declared(stream: bytes) -> tuple[int, int]:
    """Return the size that a stream declares; (0, 0) if Pillow does not know it."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(stream), formats=["JPEG", "JPEG2000", "PNG"]) as picture:
            return picture.size
    except (UnidentifiedImageError, SyntaxError):
        return 0, 0


def is_damaged(data: bytes) -> bool:
    """Return whether compressed pixels of JPEG contradict their tables.

    libjpeg only warns of them, and Pillow drops the warning. JPEG has no checksum: a damage that
    leaves valid codes is not always seen. What follows the image in the file, such as the film of a
    phone's photograph, is not looked at.

    Twelve bits, lossless and arithmetic JPEG count as intact. So do progressive JPEG if they have
    four colours (CMYK) or colours at a quarter of the width, or if imagecodecs has no libjxl.
    """
    head, scans = _split(data)
    frame = next((part for part in head if part[1] in _FRAMES), b"")
    if len(frame) <= _COLOURS or not scans:
        return True
    if frame[1] not in {*_SEQUENTIAL, _PROGRESSIVE} or frame[_PRECISION] != 8:
        return False
    one_scan = frame[1] in _SEQUENTIAL and scans[_COLOURS_OF_SCAN] == frame[_COLOURS]
    if one_scan and _is_for_pillow(frame):
        parts = _parts_of(head, frame, scans)
        if parts is not None:
            return not (parts and all(map(_ends_with_its_pixels, parts)))
    return _is_for_libjxl(frame) and not _can_be_repacked(b"".join((_START, *head, scans)))


def _parts_of(head: Sequence[bytes], frame: bytes, scans: bytes) -> list[bytes] | None:
    """Return the parts of a scan between restarts, each as a JPEG of one row of blocks.

    None if they are too many or too wide; no part if a restart is missing or out of turn.
    """
    intervals = [int.from_bytes(part[4:6]) for part in head if part[1] == _RESTARTS]
    interval = intervals[-1] if intervals else 0
    if not interval:
        return [b"".join((_START, *head, scans))]
    # A scan of one colour has blocks of 8 x 8 px, however the colour is sampled.
    sampling = frame[_COLOURS + 2 : _COLOURS + 1 + 3 * frame[_COLOURS] : 3]
    one = frame[_COLOURS] == 1
    across = 8 * max(1 if one else pair >> 4 for pair in sampling)
    down = 8 * max(1 if one else pair & 15 for pair in sampling)
    height, width = int.from_bytes(frame[5:7]), int.from_bytes(frame[7:9])
    blocks = ceil(height / down) * ceil(width / across) if across and down else 0
    first = 2 + int.from_bytes(scans[2:4])  # of the codes
    restarts = list(_RESTART.finditer(scans, first))
    if restarts and restarts[-1].end() == len(scans):  # the end of a tile of NDPI
        restarts.pop()
    turns = [restart[0][-1] - _FIRST_RESTART for restart in restarts]
    if len(turns) + 1 != ceil(blocks / interval) or turns != [n % 8 for n in range(len(turns))]:
        return []
    if len(turns) >= _MOST_PARTS or min(interval, blocks) * across > _WIDEST:
        return None
    starts = [first, *(restart.end() for restart in restarts)]
    ends = [*(restart.start() for restart in restarts), len(scans)]
    parts = []
    for start, end in zip(starts, ends, strict=True):
        count = min(interval, blocks)
        blocks -= count
        row = frame[:5] + down.to_bytes(2) + (count * across).to_bytes(2) + frame[9:]
        tables = [row if part is frame else part for part in head if part[1] != _RESTARTS]
        parts.append(b"".join((_START, *tables, scans[:first], scans[start:end])))
    return parts


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the segments needed to decode a JPEG, and its scans without the end marker."""
    head: list[bytes] = []
    place = len(_START)
    while (place := data.find(b"\xff", place)) >= 0 and place + 4 <= len(data):
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        if marker in _ALONE:
            place += 2
            continue
        if marker == _SCAN:
            return head, data[place : _end_of_image(data, place)]
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4])
        if marker not in _ABOUT:
            head.append(data[place:end])
        place = end
    return head, b""


def _end_of_image(data: bytes, place: int) -> int:
    """Return where the image ends that has a scan at ``place``, without its end marker."""
    while match := _MARKER.search(data, place):
        if match[0] == _LAST:
            return match.start()
        # A segment with a length: a table or the head of another scan.
        place = match.end() + int.from_bytes(data[match.end() : match.end() + 2])
    return len(data)


def _is_for_pillow(frame: bytes) -> bool:
    from PIL import Image

    height, width = int.from_bytes(frame[5:7]), int.from_bytes(frame[7:9])
    return frame[_COLOURS] in (1, 3, 4) and height * width <= (Image.MAX_IMAGE_PIXELS or 2**32)


def _ends_with_its_pixels(stream: bytes) -> bool:
    """Return whether a decoder needs all of a scan, and no more, to decode all pixels.

    After an error it is out of step, and stays so.
    """
    return any(_needs_all(stream.rstrip(padding)) for padding in _PADDINGS)


def _needs_all(codes: bytes) -> bool:
    from PIL import Image

    file = _Pieces(codes + bytes(_LOOK_AHEAD), [len(codes) - 1, len(codes)])
    try:
        with Image.open(file, formats=["JPEG"]) as picture:
            picture.draft(None, (1, 1))  # decodes all codes, computes an eighth of the pixels
            picture.load()
    except OSError:
        return False
    return file.tell() >= len(codes)


class _Pieces(io.BytesIO):
    """A file that is read in pieces, so that its place says how much was needed."""

    def __init__(self, data: bytes, ends: Sequence[int]) -> None:
        super().__init__(data)
        self._ends = (*ends, len(data))

    def read(self, size: int | None = -1) -> bytes:
        rest = self._ends[bisect_right(self._ends[:-1], self.tell())] - self.tell()
        return super().read(rest if size is None or size < 0 else min(size, rest))


def _is_for_libjxl(frame: bytes) -> bool:
    """Return whether libjxl takes a frame: one or three colours, sampled at most twice as often."""
    import imagecodecs

    count = frame[_COLOURS]
    sampling = frame[_COLOURS + 2 : _COLOURS + 1 + 3 * count : 3]
    fits = count in (1, 3) and all(max(one >> 4, one & 15) <= 2 for one in sampling)
    return fits and bool(imagecodecs.JPEGXL.available)


def _can_be_repacked(stream: bytes) -> bool:
    """Return whether libjxl repacks a JPEG without loss, which reads it strictly."""
    import imagecodecs

    try:
        imagecodecs.jpegxl_encode_jpeg(stream + _LAST)
    except imagecodecs.JpegxlError:
        return False
    return True
