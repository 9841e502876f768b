"""Slides as Hamamatsu's scanners write them: one JPEG with restarts, and a table of its parts."""

import io
import struct

from PIL import Image

_ASCII, _SHORT, _LONG = 2, 3, 4


def jpeg_with_restarts(pixels, blocks=2, mode="RGB", **options):
    """Return a JPEG that starts again after so many blocks, and where its parts begin."""
    file = io.BytesIO()
    picture = Image.fromarray(pixels).convert(mode)
    picture.save(file, "JPEG", quality=90, restart_marker_blocks=blocks, **options)
    data = file.getvalue()
    scan = data.index(b"\xff\xda")
    first = scan + 2 + int.from_bytes(data[scan + 2 : scan + 4])
    restarts = [at + 2 for at in range(first, len(data) - 1) if _is_restart(data[at : at + 2])]
    return data, [first, *restarts]


def _is_restart(two):
    return two[0] == 0xFF and 0xD0 <= two[1] <= 0xD7


def write_ndpi(path, pixels, blocks=2):
    """Write a slide of one level; return where its compressed pixels are in the file."""
    data, starts = jpeg_with_restarts(pixels, blocks)
    height, width = pixels.shape[:2]
    make = b"Hamamatsu\0"
    table = struct.pack(f"<{len(starts)}I", *starts)
    head = 12
    places = {"jpeg": head, "make": head + len(data), "table": head + len(data) + len(make)}
    ifd = places["table"] + len(table)
    tags = [
        (256, _LONG, 1, width),
        (257, _LONG, 1, height),
        (258, _SHORT, 1, 8),
        (259, _SHORT, 1, 7),
        (262, _SHORT, 1, 6),
        (271, _ASCII, len(make), places["make"]),
        (273, _LONG, 1, places["jpeg"]),
        (277, _SHORT, 1, 3),
        (278, _LONG, 1, height),
        (279, _LONG, 1, len(data)),
        (65420, _LONG, 1, 1),
        (65426, _LONG, len(starts), places["table"]),
    ]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    rest = bytes(8 + 4 * len(tags) + 8)  # the next directory, the high halves of values
    path.write_bytes(
        struct.pack("<2sHQ", b"II", 42, ifd)
        + data
        + make
        + table
        + struct.pack("<H", len(tags))
        + entries
        + rest
    )
    return head + starts[0], head + len(data) - 2
