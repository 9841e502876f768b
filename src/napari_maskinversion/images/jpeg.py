"""Tell whether the pixels of a JPEG file are damaged."""

from __future__ import annotations

from typing import Final

_START: Final = b"\xff\xd8"
_SCAN: Final = 0xDA
_ALONE: Final = {0x01, *range(0xD0, 0xD9)}  # markers without a length
_ABOUT: Final = {*range(0xE1, 0xEE), 0xEF, 0xFE}  # profiles, thumbnails, comments
_FRAMES: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_COMPONENTS: Final = 9  # bytes from a frame's marker to their number


def is_damaged(data: bytes) -> bool:
    """Return whether the compressed pixels of a JPEG file contradict its tables.

    libjpeg only warns of them, and Pillow drops the warning. libjxl refuses them where it repacks
    a JPEG without loss. JPEG has no checksum: a damage that leaves valid codes is not seen.

    Files of four colours (CMYK) cannot be repacked and count as intact, as do all where imagecodecs
    has no libjxl.
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
            return b"".join((*kept, data[place:]))
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4])
        if marker in _FRAMES and data[place + _COMPONENTS : end][:1] not in (b"\x01", b"\x03"):
            return None
        if marker not in _ABOUT:
            kept.append(data[place:end])
        place = end
    return None
