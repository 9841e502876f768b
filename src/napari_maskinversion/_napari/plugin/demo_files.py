"""Files that the demonstration writes: whether they are whole, and what they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

from ...base.errors import InputError
from ...base.reading import read_json

_LEAST_COLORS = 100  # of a window with a scene in it; a blank one has a few
_UNIT = 1e-3  # how far a norm may be from 1


def describe(out: Path) -> list[str]:
    """Return one line per file that the demonstration writes."""
    regions = len(_rows(out / "regions.csv"))
    checks = {
        "screenshot.png": _screenshot,
        "embeddings.npy": _embeddings,
        "embeddings.json": _json,
        "regions.csv": lambda path: (f"{len(_rows(path))} regions", len(_rows(path))),
        "result.json": _json,
        "heatmaps.tif": _heatmaps,
    }
    lines = []
    for name, check in checks.items():
        path = out / name
        try:
            text, count = check(path)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"The demo's file {path} is missing or broken: {error}") from error
        if count not in (regions, None):
            raise InputError(f"{path} has {count} regions and regions.csv has {regions}.")
        lines.append(f"{name:<16}{path.stat().st_size / 1e3:>8,.0f} kB  {text}")
    return lines


def _rows(path: Path) -> list[str]:
    try:
        rows = path.read_text("utf-8-sig").splitlines()[1:]
    except OSError as error:
        raise InputError(f"The demo's file {path} is missing or broken: {error}") from error
    if not rows:
        raise InputError(f"{path} has no regions.")
    return rows


def _screenshot(path: Path) -> tuple[str, None]:
    with Image.open(path) as picture:
        colors = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
        if len(colors) < _LEAST_COLORS:
            raise ValueError("the window is blank")
        return f"{picture.width} x {picture.height} px", None


def _embeddings(path: Path) -> tuple[str, int]:
    embeddings = np.load(path, allow_pickle=False)
    if not np.allclose(np.linalg.norm(embeddings, axis=1), 1, atol=_UNIT):
        raise ValueError("its rows are not of unit length")
    return f"{embeddings.shape[0]} x {embeddings.shape[1]}, {embeddings.dtype}", len(embeddings)


def _heatmaps(path: Path) -> tuple[str, int]:
    with tifffile.TiffFile(path) as file:
        height, width = file.pages[0].shape[:2]
        return f"{len(file.pages)} pages of {width} x {height} px", len(file.pages)


def _json(path: Path) -> tuple[str, None]:
    return f"{len(read_json(path))} entries", None
