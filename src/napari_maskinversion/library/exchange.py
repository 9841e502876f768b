"""Libraries as Parquet: each region with its embedding, space and thumbnail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base.atomic_files import atomic_path
from ..base.errors import InputError
from ..base.reading import check_file
from ..base.wording import one_line
from ..results.spaces import Space
from .region_fields import IMAGE_FIELDS, exported_fields, with_lacking_values
from .store import FACTS, ImageRecord

Picture = Callable[[int], bytes | None]
Part = tuple[Space, ImageRecord, list[dict[str, Any]], npt.NDArray[np.float32], Picture]
_MARK: Final = b"napari-maskinversion library"
_VERSION: Final = b"1"
_AT_ONCE: Final = 10_000  # regions; a row group
_OF_IMAGE: Final = tuple(field.name for field in IMAGE_FIELDS)


def write_parquet(
    path: Path,
    rows: Iterable[sqlite3.Row],
    spaces: Mapping[int, Space],
    vectors: Mapping[int, npt.NDArray[np.float16]],
) -> int:
    """Write regions of a library; return how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {field.name: pa.type_for_alias(field.arrow) for field in exported_fields()}
    kinds["picture"] = pa.binary()
    columns = list(kinds)
    kinds |= {"space": pa.string(), "embedding": pa.list_(pa.float32())}
    schema = pa.schema(kinds.items(), metadata={_MARK: _VERSION})
    count, left = 0, map(with_lacking_values, map(dict, rows))
    with (
        atomic_path(path) as part,
        part.open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while batch := list(islice(left, _AT_ONCE)):
            table: dict[str, Any] = {name: [row.get(name) for row in batch] for name in columns}
            table["space"] = [spaces[row["space"]].about for row in batch]
            table["embedding"] = [
                vectors[row["space"]][row["row"]].astype(np.float32) for row in batch
            ]
            writer.write_table(pa.table(table, schema=schema))
            count += len(batch)
    return count


def read_parquet(path: Path) -> Iterator[Part]:
    """Read what `write_parquet` wrote, image by image."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_file(path, "Parquet file")
    try:
        with pq.ParquetFile(path) as file:
            version = (file.schema_arrow.metadata or {}).get(_MARK)
            if version is None:
                raise InputError(
                    f"{path} was not written by library export. Add results.npz, or the folder of "
                    "a batch: these say where regions are."
                )
            if version != _VERSION:
                raise InputError(f"{path} is of a newer version of this program; update it.")
            for batch in file.iter_batches(_AT_ONCE):
                for _, rows in groupby(batch.to_pylist(), _place):
                    yield _part(list(rows))
    except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {one_line(error).rstrip('.')}.") from error


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["space"], *(row[name] for name in _OF_IMAGE))


def _part(rows: list[dict[str, Any]]) -> Part:
    vectors = np.array([row["embedding"] for row in rows], np.float32)
    image = ImageRecord(**{name: rows[0][name] for name in _OF_IMAGE})
    facts: list[dict[str, Any]] = [
        {"measures": "", **{name: row[name] for name in FACTS if name in row}}
        for row in map(with_lacking_values, rows)
    ]
    space = Space(about=rows[0]["space"], width=vectors.shape[1])
    return space, image, facts, vectors, lambda place: rows[place]["picture"]
