"""The memory of this machine, or what a container lets this program have of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

# Files of control groups, versions 2 and 1: limit, use, and caches that are given up when needed.
_FILES: Final = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def total_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory, free or not."""
    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _limits(root))])


def free_memory(root: Path = Path("/")) -> int:
    """Return the bytes that are free; ``root`` as in `total_memory`."""
    limits = (max(0, limit - used) for limit, used in _limits(root))
    return min([int(psutil.virtual_memory().available), *limits])


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of the control groups of this process."""
    for folder in _groups(root):
        for limit, use, cache in _FILES:
            with suppress(OSError, ValueError, KeyError):  # "max", or a file of the other version
                about = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
                most, used = (int((folder / name).read_text()) for name in (limit, use))
                yield most, used - int(about[cache])


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the control groups of this process that may limit its memory."""
    top = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        place = top / "memory" if controllers else top
        # Within a container the folder of its own group is the top one.
        for folder in (place / group.strip("/"), *(place / group.strip("/")).parents):
            if folder.is_relative_to(place):
                yield folder
