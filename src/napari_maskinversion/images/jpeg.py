"""Tell whether the pixels of a JPEG file are damaged."""

from __future__ import annotations

import re
from typing import Final

_START: Final = b"\xff\xd8"
_SCAN: Final = 0xDA
_END: Final = 0xD9
# A marker among compressed data; zeros and restart markers belong to the data.
_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)
_ALONE: Final = {0x01, *range(0xD0, 0xD9)}  # markers without a length
_ABOUT: Final = {*range(0xE1, 0xEE), 0xEF, 0xFE}  # profiles, thumbnails, comments
_FRAMES: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_COMPONENTS: Final = 9  # bytes from a frame's marker to their number


def is_damaged(data: bytes) -> bool:
    """Return whether the compressed pixels of a JPEG file contradict its tables.

    libjpeg only warns of them, and Pillow drops the warning. libjxl refuses them where it repacks
    a JPEG without loss. JPEG has no checksum: a damage that leaves valid codes is not seen.

    What libjxl cannot repack counts as intact: four colours (CMYK), colours at a quarter of the
    width; and all files where imagecodecs has no libjxl. What follows the image in the file, such
    as the film of a phone's photograph, is not looked at.
    """
    import imagecodecs

    pixels = _without_profiles(data)
    if pixels is None or not imagecodecs.JPEGXL.available:
        return False
    try:
        imagecodecs.jpegxl_encode_jpeg(pixels)
    except imagecodecs.JpegxlError:
        return True
    return False


def _without_profiles(data: bytes) -> bytes | None:
    """Drop segments that are not needed to decode; None if these are no one or three colours."""
    kept, place = [_START], len(_START)
    while place + 4 <= len(data):
        if data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if marker in _ALONE or marker == 0xFF:
            place += 1 if marker == 0xFF else 2
            continue
        if marker == _SCAN:
            return b"".join((*kept, data[place : _end_of_image(data, place)]))
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4])
        if marker in _FRAMES and not _can_be_repacked(data[place + _COMPONENTS : end]):
            return None
        if marker not in _ABOUT:
            kept.append(data[place:end])
        place = end
    return None


def _can_be_repacked(components: bytes) -> bool:
    """Return whether libjxl takes a frame: one or three colours, sampled at most twice as often."""
    count = components[0] if components else 0
    sampling = components[2 : 1 + 3 * count : 3]
    return count in (1, 3) and all(max(one >> 4, one & 15) <= 2 for one in sampling)


def _end_of_image(data: bytes, place: int) -> int:
    """Return where the image ends that has a scan at ``place``."""
    while match := _MARKER.search(data, place):
        place = match.end()
        if match[0][1] == _END:
            return place
        # A segment with a length: a table or the head of another scan.
        place += int.from_bytes(data[place : place + 2])
    return len(data)
