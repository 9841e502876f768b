"""Results as one file that brings all of them back: ``results.npz``.

Arrays for numpy, ``record`` as JSON text in bytes, the masks packed. Nothing in it is code.
"""

from __future__ import annotations

import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.atomic_files import atomic_path
from ...base.compressed_region import CompressedRegion
from ...base.errors import InputError
from ...language.captions.bank import CaptionMatches
from ...language.ranking.ranking import Ranking
from ...regions.annotations.json_files import plain
from ..region_result import RegionResult, WindowRecord
from ..results import Results
from ..run_info import RunInfo, info_from_json, info_to_json
from .bundle import Bundle, Masks
from .export_format import ExportFormat

FORMAT: Final = "napari-maskinversion results"
VERSION: Final = 2  # 1: before 0.2, settings beside one another in the info
# What reading a damaged file ends in.
_DAMAGE: Final = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    EOFError,
    RuntimeError,  # encrypted, packed in a way that is not known, or nested too deeply
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
Array = npt.NDArray[Any]


def save_archive(bundle: Bundle, path: Path) -> None:
    """Write results, masks, maps, rankings and decisions; `open_archive` reads them.

    Besides ours the file holds ``embeddings`` (N, e) and ``ids`` (N,) for any reader of numpy's.

    Raises
    ------
    InputError
        If it cannot be written; what was there before stays.
    """
    results = bundle.results
    windows = {window: place for place, window in enumerate(results.windows)}
    labels = () if results.info.vocabulary is None else results.info.vocabulary.labels
    masks = [bundle.masks.get((region.position, region.id)) for region in results.regions]
    record = {
        "format": FORMAT,
        "version": VERSION,
        "provenance": bundle.provenance(),
        "info": info_to_json(results.info),
        "windows": [_window().dump_python(window, mode="json") for window in windows],
        "image": dict(bundle.image),
        "records": list(bundle.records),
        "columns": {name: list(values) for name, values in bundle.columns.items()},
        "regions": [
            _region(region, windows[region.window], mask)
            for region, mask in zip(results.regions, masks, strict=True)
        ],
    }
    arrays: dict[str, Any] = {
        "ids": np.array(results.ids, np.int64),
        "embeddings": results.embeddings,
        "losses": _joined([region.losses for region in results.regions]),
        "grid_maps": _joined([region.grid_map for region in results.regions]),
        **_rankings(results, labels),
        "masks": np.frombuffer(b"".join(m.data for m in masks if m is not None), np.uint8),
        "decisions": np.frombuffer(bundle.decisions, np.uint8),
        "record": np.frombuffer(
            json.dumps(plain(record), ensure_ascii=False, allow_nan=False).encode(), np.uint8
        ),
    }
    with atomic_path(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _region(region: RegionResult, window: int, mask: CompressedRegion | None) -> dict[str, Any]:
    found = region.captions
    return {
        "id": region.id,
        "bbox": list(region.bbox),
        "area": region.area,
        "iou": region.iou,
        "low_resolution": region.low_resolution,
        "window": window,
        "index": region.index,
        "position": [list(place) for place in region.position],
        "centroid": list(region.centroid),
        "members": list(region.members),
        "losses": len(region.losses),
        "grid": list(region.grid_map.shape),
        "captions": None
        if found is None
        else {
            "texts": list(found.captions),
            "similarities": [float(value) for value in found.similarities],
            "rows": list(found.rows),
        },
        "mask": None if mask is None else {"bytes": len(mask.data), "coverage": mask.coverage},
    }


def _rankings(results: Results, labels: Sequence[str]) -> dict[str, Array]:
    """Places of the labels, best first, and their numbers; nothing without a vocabulary."""
    if not labels:
        return {}
    places = {label: place for place, label in enumerate(labels)}
    ranked = [region.ranking for region in results.regions if region.ranking is not None]
    order = [[places[label] for label in ranking.labels] for ranking in ranked]
    size = (len(ranked), len(labels))
    return {
        "order": np.array(order, np.int32).reshape(size),
        "similarities": np.array([r.similarities for r in ranked], np.float32).reshape(size),
        "probabilities": np.array([r.probabilities for r in ranked], np.float32).reshape(size),
    }


def _joined(arrays: Sequence[Array]) -> Array:
    flat = [array.ravel() for array in arrays]
    return np.concatenate(flat) if flat else np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Cuts one piece after the other from a flat array."""

    array: Array
    at: list[int]

    def next(self, count: int) -> Array:
        start = self.at[0]
        self.at[0] = start + count
        if count < 0 or self.at[0] > len(self.array):
            raise ValueError("an array is too short")
        return self.array[start : start + count]


def open_archive(path: Path) -> Bundle:
    """Read what `save_archive` wrote.

    Raises
    ------
    InputError
        If it is none of ours, of a newer version, or damaged; names it.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if "record" not in file:
                raise _foreign(path)
            record = json.loads(bytes(file["record"]))
            if record.get("format") != FORMAT:
                raise _foreign(path)
            if record["version"] > VERSION:
                raise InputError(
                    f"{path} was written by a newer version of this plugin; update the plugin."
                )
            return _bundle(record, {name: file[name] for name in file.files if name != "record"})
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    except MemoryError:
        raise InputError(
            f"{path} is damaged, or needs more memory than there is: it says that it holds very "
            "large arrays."
        ) from None
    except _DAMAGE as error:
        if not zipfile.is_zipfile(path):
            raise _foreign(path) from None
        raise InputError(f"{path} is damaged: {_first_line(error)}.") from error


def _bundle(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> Bundle:
    info = info_from_json(record["info"])
    windows = [_window().validate_python(window) for window in record["windows"]]
    losses, maps = _Pieces(arrays["losses"], [0]), _Pieces(arrays["grid_maps"], [0])
    masks = _Pieces(arrays["masks"], [0])
    rows = record["regions"]
    if len(arrays["embeddings"]) != len(rows):
        raise ValueError("its regions and its embeddings are not as many")
    regions: list[RegionResult] = []
    packed: dict[Any, CompressedRegion] = {}
    for number, row in enumerate(rows):
        y0, x0, y1, x1 = row["bbox"]
        position = tuple((str(axis), int(at)) for axis, at in row["position"])
        grid = tuple(row["grid"])
        region = RegionResult(
            id=row["id"],
            bbox=(y0, x0, y1, x1),
            area=row["area"],
            embedding=arrays["embeddings"][number],
            grid_map=maps.next(int(np.prod(grid))).reshape(grid),
            losses=losses.next(row["losses"]),
            ranking=_ranking(info, arrays, number),
            iou=math.nan if row["iou"] is None else row["iou"],
            low_resolution=row["low_resolution"],
            window=windows[row["window"]],
            index=row["index"],
            position=position,
            centroid=(row["centroid"][0], row["centroid"][1]),
            members=tuple(row["members"]),
            captions=_captions(row["captions"]),
            limits=info.unsure,
            cut_out=info.method.cut_out,
        )
        regions.append(region)
        if row["mask"] is not None:
            data = masks.next(row["mask"]["bytes"]).tobytes()
            packed[position, region.id] = CompressedRegion(
                region.id, region.bbox, data, row["mask"]["coverage"], region.members
            )
    _check_masks(packed)
    return Bundle(
        results=Results(info, tuple(regions)),
        masks=packed,
        source=record["provenance"].get("source", {}),
        image=record["image"],
        columns=record["columns"],
        records=record["records"],
        decisions=arrays["decisions"].tobytes(),
    )


def _check_masks(masks: Masks) -> None:
    for region in masks.values():
        if not region.unpack().mask.any():
            raise ValueError(f"region {region.id} has no pixel")


def _ranking(info: RunInfo, arrays: Mapping[str, Array], number: int) -> Ranking | None:
    if info.vocabulary is None:
        return None
    labels = info.vocabulary.labels
    return Ranking(
        labels=tuple(labels[place] for place in arrays["order"][number]),
        similarities=arrays["similarities"][number],
        probabilities=arrays["probabilities"][number],
        threshold=info.vocabulary.threshold,
    )


def _captions(values: Mapping[str, Any] | None) -> CaptionMatches | None:
    if values is None:
        return None
    numbers = np.array(values["similarities"], np.float32)
    return CaptionMatches(tuple(values["texts"]), numbers, tuple(values["rows"]))


@cache
def _window() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(WindowRecord)


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} holds no results of this plugin; open a results.npz that it saved.")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


FORMATS: Final = (
    ExportFormat("npz", "Everything, to open again (.npz)", "results.npz", save_archive),
)
