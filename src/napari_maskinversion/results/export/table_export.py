"""The results table: ``regions.csv``, and ``regions.parquet`` with the embeddings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.atomic_files import atomic_folder, atomic_path
from ...regions.annotations.json_files import to_json_types
from ..columns import columns_of_any, source_columns
from .bundle import AddImage, Bundle, ExportFormat, ImageOfMany, ManyImages

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_ABOUT: Final = b"napari-maskinversion"  # key of the metadata
# See "CSV injection" of OWASP. Where the comma is the decimal mark, programs split at semicolons,
# whatever is quoted: what follows one may become a cell of its own.
_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_STARTS: Final = re.compile(rf"(\A[\t\r\n]+|\A(?=[{_SIGNS}]))|[;\t\r\n][\"\s]*(?=[{_SIGNS}])")


def write_csv(bundle: Bundle, path: Path) -> None:
    """Write the table as CSV in UTF-8 with every digit.

    Texts that a spreadsheet would run as a formula get an apostrophe, unless ``raw_csv`` is set.
    """
    write_csv_table(bundle.table(), path, raw=bundle.raw_csv)


def write_csv_table(table: pd.DataFrame, path: Path, *, raw: bool = False) -> None:
    """Write any table as `write_csv` does."""
    with atomic_path(path) as part:
        if not raw:
            table = _with_texts(table, without_formula).rename(columns=without_formula)
        # Python before 3.13 does not quote a carriage return, which would end the row.
        table = _with_texts(table, _with_plain_line_ends)
        table.to_csv(part, index=False, lineterminator="\n")


@contextmanager
def _joining_csv(path: Path) -> Iterator[AddImage]:
    """Write one table of all images; its first column has their names."""
    import pandas as pd

    tables: list[pd.DataFrame] = []
    raw = False

    def add(image: ImageOfMany, bundle: Bundle) -> None:
        nonlocal raw
        raw = bundle.raw_csv
        table = bundle.table()
        table.insert(0, "image", image.name)
        # Whole numbers stay whole where rows of another image have none.
        whole = table.select_dtypes("int64").columns
        tables.append(table.astype(dict.fromkeys(whole, "Int64")))

    yield add
    write_csv_table(pd.concat(tables, ignore_index=True), path, raw=raw)


def without_formula(value: Any) -> Any:
    """Return a text with an apostrophe before all that may start a formula; others as they are."""
    if isinstance(value, str):
        return _STARTS.sub(_escaped, value)
    return value


def _escaped(start: re.Match[str]) -> str:
    if start[1] is None:
        return f"{start[0]}'"
    return f"'{start[0]}"


def _with_texts(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a table with other texts; its numbers stay unchanged, also whole with gaps."""
    names = table.select_dtypes(exclude="number").columns
    return table.assign(**{name: table[name].map(change) for name in names})


def _with_plain_line_ends(value: Any) -> Any:
    if isinstance(value, str) and "\r" in value:
        return "\n".join(value.splitlines())
    return value


def write_parquet(bundle: Bundle, path: Path, *, image: str | None = None) -> None:
    """Write the table and a column ``embedding`` (as optimised), zstd-compressed.

    Provenance is JSON in the schema's metadata, under ``napari-maskinversion``. With the name of an
    image the file is a part of a data set of many, see `part_of_many`.
    """
    if image is None:
        table = _table(bundle)
    else:
        table = part_of_many(bundle, image)
    with atomic_path(path) as part:
        write_parquet_table(table, part)


def write_parquet_table(table: pa.Table, path: Path) -> None:
    """Write a table to a file; raises OSError."""
    import pyarrow.parquet as pq

    with path.open("wb") as file:  # its path may be no UTF-8
        pq.write_table(table, file, compression="zstd")


def part_of_many(bundle: Bundle, image: str) -> pa.Table:
    """Return the table of one image among many, with the columns that any image may have.

    All parts have the same columns and types, since most readers take those of the first part. A
    column ``image`` has the name, ``plane`` the plane as ``--plane`` takes it, ``attributes`` the
    JSON of those that the regions' file has.
    """
    import pyarrow as pa

    table = _table(bundle)
    planes = []
    for region in bundle.results.regions:
        planes.append(",".join(f"{axis}={number}" for axis, number in region.position))
    columns: dict[str, Any] = {
        "image": pa.array([image] * len(planes), pa.string()),
        "plane": pa.array(planes, pa.string()),
    }
    for column in columns_of_any():
        kind = {"integer": pa.int64(), "text": pa.string(), "status": pa.string()}.get(
            column.kind, pa.float64()
        )
        there = column.name in table.column_names
        if there:
            columns[column.name] = table[column.name].cast(kind)
        else:
            columns[column.name] = pa.nulls(len(planes), kind)
    brought = source_columns(bundle.results.info, bundle.results.regions).values()
    for name in table.column_names:
        if name not in columns and name not in brought:
            columns[name] = table[name]
    texts = []
    for region in bundle.results.regions:
        texts.append(json.dumps(to_json_types(region.source_values), ensure_ascii=False))
    columns["attributes"] = pa.array(texts, pa.string())
    about = {_ABOUT: table.schema.metadata[_ABOUT]}
    return pa.table(columns).replace_schema_metadata(about)


@contextmanager
def _joining_parquet(folder: Path) -> Iterator[AddImage]:
    """Write a Parquet data set: a folder with a part for each image."""
    with atomic_folder(folder) as parts:

        def add(image: ImageOfMany, bundle: Bundle) -> None:
            table = part_of_many(bundle, image.name)
            write_parquet_table(table, parts / f"{image.stem}.parquet")

        yield add


def foreign_parts(folder: Path) -> list[str]:
    """Return the names of what is no part of a data set that this program wrote."""
    return [part.name for part in folder.iterdir() if not is_ours(part)]


def is_ours(file: Path) -> bool:
    """Return whether this program wrote a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.is_file():  # a pipe would block for ever
        return False
    try:
        return _ABOUT in (pq.read_schema(file).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def _table(bundle: Bundle) -> pa.Table:
    import pyarrow as pa

    results = bundle.results
    table = pa.Table.from_pandas(bundle.table(), preserve_index=False)
    # A column without any value has the type of those of other images, which may have texts.
    fields = []
    for field in table.schema:
        fields.append(field.with_type(pa.string()) if pa.types.is_null(field.type) else field)
    table = table.cast(pa.schema(fields, table.schema.metadata))
    flat = pa.array(results.raw_embeddings.ravel(), pa.float32())
    width = results.info.embed_dim
    table = table.append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, width))
    about = json.dumps(to_json_types(bundle.provenance())).encode()  # ASCII: paths may be no UTF-8
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _ABOUT: about})


FORMATS: Final = (
    ExportFormat(
        "csv",
        "Table (.csv)",
        "regions.csv",
        write_csv,
        many=ManyImages(title="Table (.csv)", file="regions.csv", writing=_joining_csv),
    ),
    ExportFormat(
        "parquet",
        "Table and embeddings (.parquet)",
        "regions.parquet",
        write_parquet,
        many=ManyImages(
            title="Table and embeddings (a Parquet data set)",
            file="regions.parquet",
            writing=_joining_parquet,
            foreign_files=foreign_parts,
        ),
    ),
)
