"""Libraries as Parquet: each region with its embedding, space and thumbnail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.atomic_files import atomic_path
from ..base.errors import InputError
from ..base.identity import ImageIdentity, ImagePlace
from ..base.reading import check_file, check_version, of_development_version
from ..base.wording import one_line
from ..results.spaces import Space
from .region_fields import IMAGE_FIELDS, added_names, exported_fields, with_lacking_values
from .store import FACTS


class Part(NamedTuple):
    """Regions of an image in one space, as `Store.write` takes them."""

    space: Space
    place: ImagePlace
    image: ImageIdentity
    rows: list[dict[str, Any]]
    vectors: npt.NDArray[np.float32]
    picture: Callable[[int], bytes | None]


_MARK: Final = b"napari-maskinversion library"
_VERSION: Final = b"1"
_EXPORT_AGAIN: Final = "export the library again"
_AT_ONCE: Final = 10_000  # regions; a row group
_OF_IMAGE: Final = tuple(field.name for field in IMAGE_FIELDS)


def write_parquet(
    path: Path,
    rows: Iterable[sqlite3.Row],
    spaces: Mapping[int, Space],
    vectors: Mapping[int, npt.NDArray[np.floating]],
) -> int:
    """Write regions of a library; return how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {field.name: pa.type_for_alias(field.arrow) for field in exported_fields()}
    kinds["picture"] = pa.binary()
    columns = list(kinds)
    kinds |= {"space": pa.string(), "embedding": pa.list_(pa.float32())}
    schema = pa.schema(kinds.items(), metadata={_MARK: _VERSION})
    count = 0
    left = map(with_lacking_values, map(dict, rows))
    with (
        atomic_path(path) as part,
        part.open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        # Batch by batch: pictures of a large library do not fit into memory at once.
        while batch := list(islice(left, _AT_ONCE)):
            table: dict[str, Any] = {}
            for name in columns:
                table[name] = [row.get(name) for row in batch]
            table["space"] = [spaces[row["space"]].about for row in batch]
            embeddings = []
            for row in batch:
                embeddings.append(vectors[row["space"]][row["row"]].astype(np.float32))
            table["embedding"] = embeddings
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
            check_version(int(version), int(_VERSION), str(path), _EXPORT_AGAIN)
            if not {*_OF_IMAGE, *FACTS} - added_names() <= {*file.schema_arrow.names}:
                raise of_development_version(str(path), _EXPORT_AGAIN)
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
    first = rows[0]
    place = ImagePlace(first["path"], first["series"])
    image = ImageIdentity(first["name"], content=first["content"])
    facts = []
    for row in map(with_lacking_values, rows):
        facts.append({name: row[name] for name in FACTS})
    space = Space(about=first["space"], width=vectors.shape[1])
    return Part(space, place, image, facts, vectors, lambda row: rows[row]["picture"])
