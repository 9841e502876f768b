"""Embeddings, tables, heatmaps and the record of how they came to be."""

from __future__ import annotations

import json
import math
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ...base.atomic_files import atomic_path, together
from ...base.errors import InputError
from ...base.units import Units
from ...regions.annotations.json_files import plain, write_json
from ..region_result import RegionResult
from ..results import MOST_PIXELS, Results
from ..sizes import equivalent_diameter, physical_size

_SOFTWARE: Final = ("napari-maskinversion", "torch", "open_clip_torch", "numpy")


def check_room(folder: Path, regions: int, shape: tuple[int, int]) -> None:
    """Refuse heatmaps that the disk cannot hold, before the work.

    Raises
    ------
    InputError
        If the stack, uncompressed, is larger than what is free at ``folder``.
    """
    needed = 4 * regions * shape[0] * shape[1]
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise InputError(
            f"heatmaps.tif may take {needed / 1e9:.1f} GB ({regions} regions of {shape[0]} x "
            f"{shape[1]} px) and {folder} has {free / 1e9:.1f} GB free; leave it out with "
            "--format npy,csv,json."
        )


def save_embeddings(
    results: Results, path: Path, *, source: Mapping[str, Any] | None = None
) -> None:
    """Write unit embeddings (N, e) float32 as .npy, and a .json beside it.

    The sidecar holds ids and norms (embedding = norm times row), model, settings and versions.
    """
    sidecar = provenance(results, source)
    sidecar["embeddings"] = {
        "file": path.name,
        "shape": list(results.unit_embeddings.shape),
        "dtype": "float32",
        "normalised": "L2",
        "ids": results.ids,
        "norms": [region.norm for region in results.regions],
    }
    with together() as files:
        with atomic_path(path, files) as part, part.open("wb") as file:
            # Into a real file numpy writes by itself, and a disk that is full is not noticed.
            np.save(SimpleNamespace(write=file.write), results.unit_embeddings)
        write_json(sidecar, path.with_suffix(".json"), files=files)


def save_table(
    results: Results, path: Path, *, more: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Write the table (`Results.to_frame`) as CSV, UTF-8, every digit kept; then more columns."""
    with atomic_path(path) as part:
        table = results.to_frame().assign(**(more or {}))
        table.to_csv(part, index=False, lineterminator="\n")


def save_parquet(
    results: Results,
    path: Path,
    *,
    source: Mapping[str, Any] | None = None,
    more: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Write the table and, as one column more, the embeddings as optimised; zstd-compressed.

    How they came to be stands in the schema's metadata under ``napari-maskinversion``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(results.to_frame().assign(**(more or {})), preserve_index=False)
    flat = pa.array(results.embeddings.ravel(), pa.float32())
    width = results.info.embed_dim
    table = table.append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, width))
    about = json.dumps(plain(provenance(results, source)), ensure_ascii=False).encode()
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"napari-maskinversion": about}
    )
    with atomic_path(path) as part:
        pq.write_table(table, part, compression="zstd")


def save_json(
    results: Results,
    path: Path,
    *,
    source: Mapping[str, Any] | None = None,
    more: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write everything but the arrays as JSON: how the results came to be, and each region.

    ``more`` has entries for each region beside its own.
    """
    record = provenance(results, source)
    regions = [_region(region, results.info.units) for region in results.regions]
    others = [{} for _ in regions] if more is None else more
    record["regions"] = [one | dict(other) for one, other in zip(regions, others, strict=True)]
    write_json(record, path)


def save_heatmaps(results: Results, path: Path) -> None:
    """Write the heatmaps as a TIFF (N, h, w) float32 in 0..1, one page a region.

    Of the plane's size where every region was seen on the whole of it. Where there are windows,
    each page is the region's window at the size of the model's input; result.json says where
    the window lies.
    """
    import tifffile

    if not len(results):
        return
    height, width = heatmap_size(results)
    # One at a time: a thousand full-size heatmaps would not fit in memory.
    whole = (height, width) == results.info.image_shape
    pages = (
        results.heatmap(index) if whole else results.window_heatmap(index, (height, width)).values
        for index in range(len(results))
    )
    with atomic_path(path) as part:
        tifffile.imwrite(
            part,
            pages,
            shape=(len(results), height, width),
            dtype=np.float32,
            photometric="minisblack",
            compression="zlib",
            bigtiff=len(results) * height * width * 4 > 2**32 - 2**25,
            metadata={"axes": "ZYX", "Labels": [f"region {i}" for i in results.ids]},
        )


def heatmap_size(results: Results) -> tuple[int, int]:
    """Pixels (h, w) of each page of heatmaps.tif."""
    height, width = results.info.image_shape
    if all(region.window.whole for region in results.regions) and height * width <= MOST_PIXELS:
        return height, width
    sizes = [region.window.input_size for region in results.regions]
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


def provenance(results: Results, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Describe how results came to be: software, model, settings, vocabulary, sizes, time."""
    info = results.info
    settings = info.settings.model_dump(mode="json", exclude={"method"})
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": {name: _version(name) for name in _SOFTWARE}
        | {"python": platform.python_version()},
        "model": {"name": info.model, "fingerprint": info.fingerprint, "device": info.device},
        "method": {
            "name": info.method.name,
            "title": info.method.title,
            "weights": None if info.method.weights is None else info.method.weights.name,
            "lacks": info.method.lacks,
        },
        "config": settings["inversion"] if info.method.uses_inversion else None,
        "vocabulary": None if info.vocabulary is None else asdict(info.vocabulary),
        "captions": None if info.captions is None else asdict(info.captions),
        "image": {
            "shape": list(info.image_shape),
            "model_input": list(info.input_size),
            "grid": list(info.grid),
            "aspect_kept": info.keep_aspect,
        },
        "window": settings["window"],
        "units": None if info.units is None else asdict(info.units),
        "unsure": settings["unsure"],
        "settings": settings,
        "source": dict(source or {}),
    }


def _region(region: RegionResult, units: Units | None) -> dict[str, Any]:
    ranking = region.ranking
    return {
        "id": region.id,
        "bbox_yxyx": list(region.bbox),
        **_sizes(region, units),
        "plane": dict(region.position),
        "members": list(region.members),
        "window": {
            "box_yxyx": list(region.window.box),
            "whole": region.window.whole,
            "model_input": list(region.window.input_size),
            "grid": list(region.window.grid),
            "resolution": region.window.resolution,
            "device": region.window.device,
        },
        "suggestion": region.suggestion,
        "status": region.status,
        "unsure": list(region.uncertainty.reasons),
        "entropy": _number(region.uncertainty.entropy),
        "heatmap_iou": _number(region.iou),
        "norm": region.norm,
        "losses": [float(loss) for loss in region.losses],
        "margin": None if ranking is None else _number(ranking.margin),
        "ranking": []
        if ranking is None
        else [
            {"label": label, "similarity": float(similarity), "probability": float(chance)}
            for label, similarity, chance in zip(
                ranking.labels, ranking.similarities, ranking.probabilities, strict=True
            )
        ],
        "captions": _captions(region),
    }


def _sizes(region: RegionResult, units: Units | None) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "area_px": region.area,
        "diameter_px": equivalent_diameter(region.area),
        "centroid_yx": list(region.centroid),
    }
    size = physical_size(region, units)
    if size is not None:
        sizes |= {"area": size.area, "diameter": size.diameter, "unit": size.unit}
    if units is not None and units.geo is not None:
        sizes["world_xy"] = list(units.geo.world(*region.centroid))
    return sizes


def _captions(region: RegionResult) -> list[dict[str, Any]]:
    found = region.captions
    if found is None:
        return []
    pairs = zip(found.captions, found.similarities, strict=True)
    return [{"caption": text, "similarity": float(value)} for text, value in pairs]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
