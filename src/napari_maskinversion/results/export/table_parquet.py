"""``regions.parquet``: the results table and the embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ...base.atomic_files import atomic_path
from ...regions.annotations.json_files import to_json_types
from .bundle import Bundle
from .export_format import ExportFormat


def write_parquet(bundle: Bundle, path: Path) -> None:
    """Write the table and a column ``embedding`` (as optimised), zstd-compressed.

    Provenance is JSON in the schema's metadata, under ``napari-maskinversion``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    results = bundle.results
    table = pa.Table.from_pandas(bundle.table(), preserve_index=False)
    # A column without any value has the type of those of other images, which may have texts.
    fields = [
        field.with_type(pa.string()) if pa.types.is_null(field.type) else field
        for field in table.schema
    ]
    table = table.cast(pa.schema(fields, table.schema.metadata))
    flat = pa.array(results.raw_embeddings.ravel(), pa.float32())
    width = results.info.embed_dim
    table = table.append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, width))
    about = json.dumps(to_json_types(bundle.provenance())).encode()  # ASCII: paths may be no UTF-8
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"napari-maskinversion": about}
    )
    with atomic_path(path) as part, part.open("wb") as file:  # its path may be no UTF-8 either
        pq.write_table(table, file, compression="zstd")


FORMATS: Final = (
    ExportFormat("parquet", "Table and embeddings (.parquet)", "regions.parquet", write_parquet),
)
