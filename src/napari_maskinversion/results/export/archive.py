"""``results.npz``: one file that restores results, masks, maps, rankings and decisions.

A numpy archive of flat arrays and of ``record``, a JSON text as bytes. It contains no code.
"""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from ...base.atomic_files import atomic_path, recover
from ...base.errors import InputError
from ...base.identity import Position
from ...base.reading import check_file, parse_json
from ...base.validation import config_error
from ...language.captions.bank import CaptionMatches
from ...language.ranking.ranking import Ranking
from ...regions.annotations.json_files import to_json_types
from ..columns import columns_of
from ..compressed_region import CompressedRegion
from ..region_result import RegionResult
from ..results import Results
from ..run_info import RunInfo, info_from_json, info_to_json
from .archive_record import FORMAT, PLAIN_FIELDS, VERSION, ArchiveRecord, RegionRecord
from .bundle import Bundle
from .export_format import ExportFormat
from .npz import read_arrays

# Errors that reading a damaged file can raise.
_DAMAGE: Final = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    EOFError,
    RuntimeError,  # encrypted, in an unknown compression, or nested too deeply
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
Array = npt.NDArray[Any]


def save_archive(bundle: Bundle, path: Path) -> None:
    """Write results, masks, maps, rankings and decisions; `open_archive` reads them.

    Any numpy reader can use the arrays ``embeddings`` (N, e) and ``ids`` (N,).
    """
    results = bundle.results
    windows = {window: number for number, window in enumerate(results.windows)}
    masks = [bundle.masks.get((region.position, region.id)) for region in results.regions]
    record = ArchiveRecord(
        provenance=bundle.provenance(),
        info=info_to_json(results.info),
        windows=results.windows,
        image=dict(bundle.image),
        records=[dict(entries) for entries in bundle.records],
        columns={name: list(values) for name, values in bundle.columns.items()},
        unknown_words=sorted(
            {word for one in results.regions if one.ranking for word in one.ranking.unknown}
        ),
        regions=[
            RegionRecord.of(region, windows[region.window], mask)
            for region, mask in zip(results.regions, masks, strict=True)
        ],
    )
    text = json.dumps(to_json_types(record.model_dump()), ensure_ascii=False, allow_nan=False)
    arrays: dict[str, Any] = {
        "ids": np.array(results.ids, np.int64),
        "embeddings": results.raw_embeddings,
        "losses": _flat(region.losses for region in results.regions),
        "grid_maps": _flat(region.grid_map for region in results.regions),
        **_ranking_arrays(results),
        "masks": _as_array(b"".join(mask.data for mask in masks if mask is not None)),
        "decisions": _as_array(bundle.decisions),
        "record": _as_array(text.encode()),
    }
    with atomic_path(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _ranking_arrays(results: Results) -> dict[str, Array]:
    """Label indices, best first, similarities and probabilities; empty without a vocabulary."""
    vocabulary = results.info.vocabulary
    if vocabulary is None:
        return {}
    indices = {label: index for index, label in enumerate(vocabulary.labels)}
    rankings = [region.ranking for region in results.regions if region.ranking is not None]
    order = [[indices[label] for label in ranking.labels] for ranking in rankings]
    shape = (len(rankings), len(indices))
    return {
        "order": np.array(order, np.int32).reshape(shape),
        "similarities": np.array([r.similarities for r in rankings], np.float32).reshape(shape),
        "probabilities": np.array([r.probabilities for r in rankings], np.float32).reshape(shape),
    }


def _flat(arrays: Iterable[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.float32), *(array.ravel() for array in arrays)])


def _as_array(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8)


def open_archive(path: Path) -> Bundle:
    """Read the results that `save_archive` wrote."""
    recover(path.parent)
    check_file(path, "file of results")
    try:
        arrays = read_arrays(path)
        if "record" not in arrays:
            raise _foreign(path)
        values = parse_json(bytes(arrays["record"]), "its record")
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise _foreign(path)
        if (version := values["version"]) != VERSION:
            advice = "update the plugin" if version > VERSION else "run again to get its results"
            other = "a newer" if version > VERSION else "an older"
            raise InputError(f"{path} was written by {other} version of this plugin; {advice}.")
        return _to_bundle(ArchiveRecord.model_validate(values), arrays)
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path} is damaged: {str(error).rstrip('.')}.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    except MemoryError:
        raise InputError(
            f"{path} is damaged, or needs more memory than there is: it declares very large arrays."
        ) from None
    except _DAMAGE as error:
        if not zipfile.is_zipfile(path):
            raise _foreign(path) from None
        raise InputError(f"{path} is damaged: {_cause(error)}.") from error


def _to_bundle(record: ArchiveRecord, arrays: Mapping[str, Array]) -> Bundle:
    info = info_from_json(record.info)
    rows = record.regions
    embeddings = _floats(arrays, "embeddings", (len(rows), info.embed_dim))
    losses = _split(_floats(arrays, "losses"), [row.losses for row in rows])
    maps = _split(_floats(arrays, "grid_maps"), [row.grid[0] * row.grid[1] for row in rows])
    rankings = _rankings(info, arrays, len(rows), frozenset(record.unknown_words or ()))
    height, width = info.image_shape
    for row in rows:
        y0, x0, y1, x1 = row.bbox
        if not (y0 < y1 <= height and x0 < x1 <= width):
            raise ValueError(f"region {row.id} lies outside the image")
    regions = tuple(
        RegionResult(
            **{name: getattr(row, name) for name in PLAIN_FIELDS},
            raw_embedding=embedding,
            grid_map=grid_map.reshape(row.grid),
            losses=region_losses,
            ranking=ranking,
            window=record.windows[row.window],
            captions=_captions(row),
            limits=info.limits,
            cut_out=info.method.cut_out,
        )
        for row, embedding, grid_map, region_losses, ranking in zip(
            rows, embeddings, maps, losses, rankings, strict=True
        )
    )
    own = {column.name for column in columns_of(info, regions)} | {"embedding", "image", "plane"}
    for name in own & record.columns.keys():
        raise ValueError(f"its column {name!r} has the name of a column of the table")
    return Bundle(
        results=Results(info, regions),
        masks=_masks(rows, _bytes(arrays, "masks")),
        source=record.provenance.get("source", {}),
        image=record.image,
        columns=record.columns,
        records=record.records,
        decisions=_bytes(arrays, "decisions").tobytes(),
    )


def _split(array: Array, sizes: Sequence[int]) -> Iterator[Array]:
    """Cut a flat array into consecutive pieces."""
    if sum(sizes) != len(array):
        raise ValueError("an array does not have the length that its regions need")
    start = 0
    for size in sizes:
        yield array[start : start + size]
        start += size


def _masks(
    rows: Iterable[RegionRecord], data: Array
) -> dict[tuple[Position, int], CompressedRegion]:
    stored = [(row, row.mask) for row in rows if row.mask is not None]
    pieces = _split(data, [mask.bytes for _, mask in stored])
    masks = {}
    for (row, mask), piece in zip(stored, pieces, strict=True):
        region = CompressedRegion(row.id, row.bbox, piece.tobytes(), mask.coverage, row.members)
        if not region.unpack().mask.any():
            raise ValueError(f"region {row.id} has no pixel")
        masks[row.position, row.id] = region
    return masks


def _floats(
    arrays: Mapping[str, Array], name: str, shape: tuple[int, ...] | None = None
) -> npt.NDArray[np.float32]:
    """Return a finite array as float32; without a shape, of one dimension."""
    array = arrays[name]
    if array.dtype.kind != "f" or (array.ndim != 1 if shape is None else array.shape != shape):
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    with np.errstate(over="ignore"):
        values = np.asarray(array, np.float32)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has values that are not finite")
    return values


def _bytes(arrays: Mapping[str, Array], name: str) -> Array:
    array = arrays[name]
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    return array


def _rankings(
    info: RunInfo, arrays: Mapping[str, Array], count: int, unknown: frozenset[str]
) -> list[Ranking | None]:
    if info.vocabulary is None:
        return [None] * count
    labels, shape = info.vocabulary.labels, (count, len(info.vocabulary.labels))
    similarities = _floats(arrays, "similarities", shape)
    probabilities = _floats(arrays, "probabilities", shape)
    order = arrays["order"]
    if order.shape != shape or order.dtype.kind not in "iu":
        raise ValueError(f"order has shape {order.shape} and type {order.dtype}")
    if (np.sort(order, axis=1) != np.arange(len(labels))).any():
        raise ValueError("order does not have each label once")
    if np.abs(similarities).max(initial=0) > 1.01:
        raise ValueError("similarities are not in -1..1")
    if probabilities.min(initial=0) < 0 or probabilities.max(initial=0) > 1.01:
        raise ValueError("probabilities are not in 0..1")
    return [
        Ranking(
            labels=tuple(labels[index] for index in indices),
            similarities=row,
            probabilities=shares,
            threshold=info.vocabulary.threshold,
            unknown=unknown,
        )
        for indices, row, shares in zip(order, similarities, probabilities, strict=True)
    ]


def _captions(row: RegionRecord) -> CaptionMatches | None:
    if row.captions is None:
        return None
    similarities = np.array(row.captions.similarities, np.float32)
    return CaptionMatches(row.captions.texts, similarities, row.captions.rows)


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} holds no results of this plugin; open a results.npz that it saved.")


def _cause(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return str(config_error(error)).rstrip(".")
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


FORMATS: Final = (
    ExportFormat("npz", "Everything, to open again (.npz)", "results.npz", save_archive),
)
