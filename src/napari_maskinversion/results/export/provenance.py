"""How results were computed, as JSON."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from ..run_info import RunInfo

_SOFTWARE: Final = ("napari-maskinversion", "torch", "open_clip_torch", "numpy")


def provenance(info: RunInfo, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Describe a run: software, model, settings, vocabulary, sizes, time."""
    settings = info.settings.model_dump(mode="json", exclude={"method"})
    return {
        "run": info.run_id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": {name: _version(name) for name in _SOFTWARE}
        | {"python": platform.python_version()},
        "model": {"name": info.model, "fingerprint": info.fingerprint, "device": info.device},
        "machine": None if info.machine is None else asdict(info.machine),
        "method": {
            "name": info.method.name,
            "title": info.method.title,
            "weights": None if info.method.weights is None else info.method.weights.name,
            "lacks": info.method.lacks,
        },
        "config": settings["inversion"] if info.method.uses_inversion else None,
        "vocabulary": None if info.vocabulary is None else asdict(info.vocabulary),
        "captions": None if info.captions is None else asdict(info.captions),
        "generated_captions": None if info.generated is None else asdict(info.generated),
        "image": {
            "shape": list(info.image_shape),
            "model_input": list(info.input_size),
            "grid": list(info.grid),
            "aspect_kept": info.keep_aspect,
        },
        "window": settings["window"],
        "units": None if info.units is None else asdict(info.units),
        "unsure": settings["unsure"],
        "flags": {
            "limits": asdict(info.limits),
            "calibration": None if info.calibration is None else asdict(info.calibration),
            "note": info.flags_note,
        },
        "settings": settings,
        "differs_from_paper": info.settings.differences_from_paper(),
        "source": dict(source or {}),
    }


@cache  # a batch asks for each image, and 2 ms each time
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
