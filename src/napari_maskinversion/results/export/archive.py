"""``results.npz``: one file that restores results, masks, maps, rankings and decisions.

A numpy archive of flat arrays and of ``record``, the JSON of a `RunRecord` as bytes. It contains no
code.
"""

from __future__ import annotations

import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from ...base.atomic_files import atomic_path, recover
from ...base.errors import InputError
from ...base.identity import Position
from ...base.memory import free_memory
from ...base.reading import (
    MOST_NPY_HEAD,
    check_file,
    check_version,
    of_development_version,
    parse_json,
    read_npy_head,
)
from ...base.validation import UnknownSettingError, config_error
from ...base.wording import first_line
from ...language.captions.bank import CaptionMatches
from ...language.labels.vocabulary import Vocabulary
from ...language.ranking.ranking import Ranking
from ...regions.annotations.json_files import to_json_types
from ..region_result import RegionResult
from ..results import Results
from .bundle import Bundle, CompressedRegion, ExportFormat
from .record import FORMAT, VERSION, RegionRecord, RunRecord, facts_of

# Errors that reading a damaged file can raise; RuntimeError: encrypted, in an unknown compression,
# or nested too deeply.
_DAMAGE: Final = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError, EOFError, RuntimeError),
    *(lzma.LZMAError, zipfile.BadZipFile, zlib.error),
)
# Zeros are packed 1000 times smaller, results 10 times.
_USUAL: Final = 200
_SMALL: Final = 200_000_000  # bytes that may be packed as well as they can
_RUN_AGAIN: Final = "run again to get its results"
_BEFORE: Final = "_before"  # after the names of arrays of rankings without decisions
Array = npt.NDArray[Any]


def save_archive(bundle: Bundle, path: Path) -> None:
    """Write results, masks, maps, rankings and decisions; `open_archive` reads them.

    Any numpy reader can use the arrays ``embeddings`` (N, e) and ``ids`` (N,).
    """
    results = bundle.results
    record = to_json_types(RunRecord.of(bundle).model_dump())
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    masks = b"".join(mask.data for mask in bundle.region_masks() if mask is not None)
    losses = [region.losses for region in results.regions]
    maps = [region.grid_map for region in results.regions]
    arrays: dict[str, Any] = {
        "ids": np.array(results.ids, np.int64),
        "embeddings": results.raw_embeddings,
        "losses": _flat(losses),
        "grid_maps": _flat(maps),
        **_ranking_arrays(results),
        **(_learned_arrays(results) if results.has_decisions else {}),
        "masks": np.frombuffer(masks, np.uint8),
        "decisions": np.frombuffer(bundle.decisions, np.uint8),
        "record": np.frombuffer(text.encode(), np.uint8),
    }
    with atomic_path(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _ranking_arrays(results: Results) -> dict[str, Array]:
    """Label indices, best first, similarities and probabilities; empty without a vocabulary."""
    vocabulary = results.info.vocabulary
    if vocabulary is None:
        return {}
    indices = {label: index for index, label in enumerate(vocabulary.labels)}
    rankings = []
    for region in results.regions:
        if region.ranking is not None:
            rankings.append(region.ranking)
    order = []
    for ranking in rankings:
        order.append([indices[label] for label in ranking.labels])
    similarities = [ranking.similarities for ranking in rankings]
    probabilities = [ranking.probabilities for ranking in rankings]
    shape = (len(rankings), len(indices))
    return {
        "order": np.array(order, np.int32).reshape(shape),
        "similarities": np.array(similarities, np.float32).reshape(shape),
        "probabilities": np.array(probabilities, np.float32).reshape(shape),
    }


def _learned_arrays(results: Results) -> dict[str, Array]:
    """What decisions changed: rankings without them, and where "none of these" is best."""
    rankings = [region.ranking for region in results.regions if region.ranking is not None]
    before = _ranking_arrays(results.without_decisions())
    return {
        "is_none": np.array([ranking.is_none for ranking in rankings], bool),
        **{f"{name}{_BEFORE}": array for name, array in before.items()},
    }


def _flat(arrays: Iterable[Array]) -> Array:
    return np.concatenate([np.zeros(0, np.float32), *(array.ravel() for array in arrays)])


def open_archive(path: Path) -> Bundle:
    """Read the results that `save_archive` wrote."""
    recover(path.parent)
    check_file(path, "file of results")
    try:
        arrays = _read_arrays(path)
        values = None
        if "record" in arrays:
            values = parse_json(bytes(arrays["record"]), "its record")
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise _foreign(path)
        check_version(values["version"], VERSION, str(path), _RUN_AGAIN)
        return _to_bundle(RunRecord.model_validate(values), arrays)
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path} is damaged: {str(error).rstrip('.')}.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    except MemoryError:
        raise _too_large(path, "very large arrays") from None
    except ValidationError as error:
        problem = config_error(error)
        if isinstance(problem, UnknownSettingError):
            raise of_development_version(str(path), _RUN_AGAIN) from error
        raise InputError(f"{path} is damaged: {str(problem).rstrip('.')}.") from error
    except _DAMAGE as error:
        if not zipfile.is_zipfile(path):
            raise _foreign(path) from None
        raise InputError(f"{path} is damaged: {first_line(error)}.") from error


def _read_arrays(path: Path) -> dict[str, Array]:
    """Read all arrays of numbers; what they declare is checked before it is unpacked."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        declared = sum(_declared(archive, member) for member in members)
        if declared > max(_SMALL, _USUAL * path.stat().st_size) or declared > free_memory():
            raise _too_large(path, f"arrays of {declared / 1e6:,.0f} MB")
        arrays = {}
        for member in members:
            with archive.open(member) as file:
                arrays[member.filename.removesuffix(".npy")] = np.lib.format.read_array(
                    file, allow_pickle=False, max_header_size=MOST_NPY_HEAD
                )
    return arrays


def _declared(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    with archive.open(member) as file:
        shape, _, dtype = read_npy_head(file)
        if dtype.kind not in "biuf":
            raise ValueError(f"{member.filename} has values of type {dtype}")
        # Zip files can declare another size than the array in them; the larger one counts.
        return max(math.prod(shape) * dtype.itemsize, member.file_size)


def _to_bundle(record: RunRecord, arrays: Mapping[str, Array]) -> Bundle:
    info = record.info
    rows = record.regions
    embeddings = _array(arrays, "embeddings", shape=(len(rows), info.embed_dim))
    losses = _split(_array(arrays, "losses"), [row.losses for row in rows])
    maps = _split(_array(arrays, "grid_maps"), [row.grid[0] * row.grid[1] for row in rows])
    rankings = _all_rankings(record, arrays)
    regions = tuple(
        RegionResult(
            **facts_of(row),
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
    return Bundle(
        results=Results(info, regions),
        masks=_masks(rows, _array(arrays, "masks", np.uint8)),
        source=record.provenance.get("source", {}),
        image=record.image,
        columns=record.columns,
        records=record.records,
        decisions=_array(arrays, "decisions", np.uint8).tobytes(),
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
        region.unpack()  # raises ValueError if it does not fit its box
        masks[row.position, row.id] = region
    return masks


def _array(
    arrays: Mapping[str, Array], name: str, kind: Any = np.float32, shape: tuple[int, ...] = ()
) -> Array:
    """Return an array of a type; without a shape, of one dimension."""
    array = arrays[name]
    if array.dtype != kind or array.shape != (shape or (array.size,)):
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    return array


def _all_rankings(record: RunRecord, arrays: Mapping[str, Array]) -> Sequence[Ranking | None]:
    """Return the ranking of each region; of those that a review learned, with those before."""
    vocabulary = record.info.vocabulary
    count = len(record.regions)
    if vocabulary is None:
        return [None] * count
    if vocabulary.chosen is vocabulary:
        return _rankings(vocabulary, arrays, count, record.unknown_words)
    learned = _rankings(replace(vocabulary, threshold=None), arrays, count, record.unknown_words)
    before = _rankings(vocabulary.chosen, arrays, count, record.unknown_before, _BEFORE)
    is_none = _array(arrays, "is_none", bool, (count,)).tolist()
    rankings = []
    for row, ranking in enumerate(learned):
        rankings.append(replace(ranking, is_none=is_none[row], before=before[row]))
    return rankings


def _rankings(
    vocabulary: Vocabulary,
    arrays: Mapping[str, Array],
    count: int,
    unknown_words: Iterable[str],
    suffix: str = "",
) -> list[Ranking]:
    """Return the rankings of a number of regions, from arrays whose names end so."""
    labels = vocabulary.labels
    shape = (count, len(labels))
    unknown = frozenset(unknown_words)
    order = _array(arrays, f"order{suffix}", np.int32, shape)
    similarities = _array(arrays, f"similarities{suffix}", shape=shape)
    probabilities = _array(arrays, f"probabilities{suffix}", shape=shape)
    rankings = []
    for row, indices in enumerate(order):
        rankings.append(
            Ranking(
                labels=tuple(labels[index] for index in indices),
                similarities=similarities[row],
                probabilities=probabilities[row],
                threshold=vocabulary.threshold,
                unknown=unknown,
            )
        )
    return rankings


def _captions(row: RegionRecord) -> CaptionMatches | None:
    if row.captions is None:
        return None
    similarities = np.array(row.captions.similarities, np.float32)
    return CaptionMatches(row.captions.texts, similarities, row.captions.rows)


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} holds no results of this plugin; open a results.npz that it saved.")


def _too_large(path: Path, declared: str) -> InputError:
    return InputError(
        f"{path} is damaged, or needs more memory than there is: it declares {declared}."
    )


FORMATS: Final = (
    ExportFormat("npz", "Everything, to open again (.npz)", "results.npz", save_archive),
)
