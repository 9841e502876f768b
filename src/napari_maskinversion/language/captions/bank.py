"""A caption bank: captions of one model, embedded once, kept in a folder, searched exactly.

``captions.parquet`` has the captions, and the `BankRecord` in its metadata.
``vectors-00001024-00002048.parquet`` has the embeddings of captions 1,024 to 2,047: the bytes of
unit vectors in float16. Any Parquet reader opens them. A file appears whole or not at all, and
Parquet's own checksums find damage; what is missing or damaged is embedded again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from ...base.atomic_files import replacing
from ...base.errors import InputError
from ...base.reading import check_version, of_development_version, parse_json, validated
from ...base.wording import one_line
from .caption_files import Captions, skipped_lines

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

    from ...engine.models.backbone import Backbone

TOP: Final = 5  # captions per region
TEXTS: Final = "captions.parquet"
VECTORS: Final = "vectors-*.parquet"
FORMAT: Final = 2
BLOCK: Final = 1024  # captions of a file of vectors, fewer where a build was stopped
_PART: Final = re.compile(r"vectors-(\d{8})-(\d{8})\.parquet")
_RECORD: Final = b"napari-maskinversion caption bank"
_GROUP: Final = 1 << 16  # captions that are read together to find one
# Regions that are compared with a file of vectors at once: 32 MB of similarities.
_REGIONS: Final = 2000
_OLD_TEXTS: Final = "bank.jsonl"  # instead of `TEXTS` in banks of development versions
_BUILD_AGAIN: Final = "build the bank again in another folder"

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class BankRecord:
    """Model and captions of a caption bank."""

    model: str  # Name of the model that embedded it; hash of its name, weights and preprocessing
    fingerprint: str
    embed_dim: Annotated[int, Field(ge=1, le=100_000)]  # Length of a vector
    count: Annotated[int, Field(ge=1)]  # Number of captions
    sha256: str  # Hash of the captions and their order
    source: str = ""  # Name of the file they came from
    blank: int = 0  # Numbers of blank and repeated lines in the file, which were skipped
    repeated: int = 0

    @property
    def skipped(self) -> str:
        """How many lines of the file were skipped, in words; "" for none."""
        return skipped_lines(self.blank, self.repeated)


@dataclasses.dataclass(frozen=True, slots=True)
class CaptionUse:
    """The bank that a run took captions from."""

    bank: BankRecord
    top: int  # Captions per region; fewer if the bank has fewer


@dataclasses.dataclass(frozen=True, slots=True)
class CaptionMatches:
    """The captions of a bank that fit a region best, best first."""

    captions: tuple[str, ...]
    similarities: FloatArray  # (captions,), float32. Cosine of region and caption.
    rows: tuple[int, ...]  # Their rows in the bank


class ModelIdentity(NamedTuple):
    """A model as the results of a run describe it; a `Backbone` has the same three."""

    name: str
    fingerprint: str  # Hash of its name, weights and preprocessing
    embed_dim: int


class DamagedError(InputError):
    """A file of a bank that cannot be read."""


class CaptionBank:
    """A bank, finished or not. `open_bank` and `build_bank` return finished ones."""

    def __init__(self, folder: Path, record: BankRecord) -> None:
        self.folder = folder
        self.record = record
        self._parts: dict[int, int] = {}  # one past the last row by the first row
        for first, last in sorted(_parts(folder)):
            if last <= record.count:
                self._parts[first] = last

    def __len__(self) -> int:
        return self.record.count

    def __repr__(self) -> str:
        return f"<CaptionBank of {len(self):,} captions, model {self.record.model}>"

    @staticmethod
    def exists(folder: Path) -> bool:
        """Return whether a folder has a bank, or a file of the name of one."""
        return (folder / TEXTS).exists()

    @classmethod
    def open(cls, folder: Path) -> CaptionBank:
        """Open the bank in a folder."""
        if not cls.exists(folder):
            if (folder / _OLD_TEXTS).exists():
                raise of_development_version(f"The caption bank in {folder}", _BUILD_AGAIN)
            raise InputError(
                f"There is no caption bank in {folder}; build one: captions build FILE."
            )
        return cls(folder, _read_record(folder / TEXTS))

    @classmethod
    def create(cls, folder: Path, record: BankRecord, captions: Captions) -> CaptionBank:
        """Create a bank in a folder without one; vectors that belong to it stay."""
        import pyarrow as pa

        table = pa.table({"caption": pa.array(captions.texts, pa.string())})
        _write(folder / TEXTS, table, record, compression="zstd", row_group_size=_GROUP)
        return cls(folder, record)

    @property
    def done(self) -> int:
        """Number of embedded captions."""
        return sum(last - first for first, last in self._parts.items())

    @property
    def complete(self) -> bool:
        """Whether every caption is embedded."""
        return self.done == self.record.count

    def missing(self) -> Iterator[tuple[int, int]]:
        """Yield the rows (first, last) that have yet to be embedded, a file's worth each."""
        reached = 0
        for first, last in [*self._parts.items(), (self.record.count, self.record.count)]:
            for start in range(reached, first, BLOCK):
                yield start, min(start + BLOCK, first)
            reached = last

    def write(self, first: int, vectors: Sequence[FloatArray | HalfArray]) -> None:
        """Keep the vectors (rows, e) of captions from `first` on; on disk when this returns."""
        import pyarrow as pa

        rows = np.concatenate(vectors).astype("<f2")
        kind = pa.binary(2 * self.record.embed_dim)
        column = pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])
        last = first + len(rows)
        path = self._path(first, last)
        _write(path, pa.table({"vector": column}), self.record, compression="none")
        self._parts = dict(sorted({**self._parts, first: last}.items()))

    def drop_damaged(self) -> None:
        """Delete files of vectors that are damaged, or of another bank."""
        for first, last in list(self._parts.items()):
            path = self._path(first, last)
            try:
                self._read_part(first, last)
                whole = belongs(path, self.record)
            except InputError:
                whole = False
            if not whole:
                path.unlink(missing_ok=True)
                del self._parts[first]

    def read_vectors(self) -> Iterator[tuple[int, HalfArray]]:
        """Yield the first row of each file, and its vectors (rows, e)."""
        for first, last in self._parts.items():
            yield first, self._read_part(first, last)

    def read_texts(self, rows: Iterable[int] | None = None) -> dict[int, str]:
        """Return the captions of rows, by default of all."""
        import pyarrow.parquet as pq

        texts: dict[int, str] = {}
        groups: dict[int, list[int]] = {}
        for row in range(self.record.count) if rows is None else sorted(set(rows)):
            groups.setdefault(row // _GROUP, []).append(row)
        path = self.folder / TEXTS
        with _reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group, rows_of_group in groups.items():
                column = file.read_row_group(group, use_threads=False)["caption"]
                picked = column.take([row - group * _GROUP for row in rows_of_group])
                texts.update(zip(rows_of_group, picked.to_pylist(), strict=True))
        return texts

    def has_texts(self, captions: Captions) -> bool:
        """Return whether the captions are there and undamaged."""
        try:
            return tuple(self.read_texts().values()) == captions.texts
        except DamagedError:
            return False

    def check(self, model: Backbone | ModelIdentity) -> None:
        """Refuse a model that did not embed this bank."""
        if self.record.fingerprint == model.fingerprint:
            return
        same_name = ""
        if self.record.model == model.name:
            same_name = " (other weights)"
        raise InputError(
            f"The caption bank in {self.folder} was built with the model {self.record.model}"
            f"{same_name}, not with {model.name}; build one for this model, or use that one."
        )

    def search(
        self, unit_embeddings: FloatArray, k: int = TOP, *, device: torch.device | str = "cpu"
    ) -> list[CaptionMatches]:
        """Find the k best captions for each region by comparing it with every caption.

        The bank is read file by file: memory use stays near 150 MB plus the regions' embeddings
        for a bank of any size. Vectors are stored in half precision, so similarities differ
        by up to 0.0005 (typically 0.00002) from those of freshly embedded captions.

        Shapes: unit_embeddings (regions, e), float32.
        """
        if not len(unit_embeddings):
            return []
        import torch

        # Torch multiplies: NumPy's threads would keep spinning into the next inversion.
        regions = torch.from_numpy(np.ascontiguousarray(unit_embeddings, np.float32)).to(device)
        groups = regions.split(_REGIONS)  # type: ignore[no-untyped-call]
        best = []
        for group in groups:
            best.append((torch.zeros(len(group), 0), torch.zeros(len(group), 0).long()))
        for first, rows in self.read_vectors():
            vectors = torch.tensor(rows, device=device).float()
            for number, group in enumerate(groups):
                best[number] = _merge(best[number], group @ vectors.T, first, k)
        values = torch.cat([values for values, _ in best]).clamp(-1, 1).numpy()
        rows_by_region = torch.cat([rows for _, rows in best]).tolist()
        texts = self.read_texts(set(chain.from_iterable(rows_by_region)))
        matches = []
        for similarities, best_rows in zip(values, rows_by_region, strict=True):
            captions = tuple(texts[row] for row in best_rows)
            matches.append(CaptionMatches(captions, similarities, tuple(best_rows)))
        return matches

    def vectors(self) -> HalfArray:
        """Return the embeddings of all captions (captions, e), float16, of L2 norm 1."""
        return np.concatenate([rows for _, rows in self.read_vectors()])

    def _read_part(self, first: int, last: int) -> HalfArray:
        import pyarrow.parquet as pq

        path = self._path(first, last)
        width = 2 * self.record.embed_dim
        with (
            _reading(path, f"Captions {first + 1:,} to {last:,} of the bank"),
            pq.ParquetFile(path, page_checksum_verification=True) as file,
        ):
            chunks = file.read(use_threads=False)["vector"].chunks
            data = b"".join(chunk.buffers()[1][: len(chunk) * width] for chunk in chunks)
            rows = np.frombuffer(data, "<f2").reshape(last - first, -1)
        return rows.astype(np.float16, copy=False)

    def _path(self, first: int, last: int) -> Path:
        return self.folder / f"vectors-{first:08d}-{last:08d}.parquet"


def open_bank(folder: str | Path) -> CaptionBank:
    """Open a finished bank."""
    bank = CaptionBank.open(Path(folder))
    if not bank.complete:
        raise InputError(
            f"The caption bank in {folder} is half built ({bank.done:,} of {len(bank):,} "
            f"captions); go on with: captions build {folder}."
        )
    return bank


def _merge(
    best: tuple[torch.Tensor, torch.Tensor], similarities: torch.Tensor, first: int, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the k best so far, values and rows, with those of more captions from row `first` on."""
    import torch

    values, rows = similarities.topk(min(k, similarities.shape[1]), dim=1)
    values = torch.cat([best[0], values.cpu()], 1)
    rows = torch.cat([best[1], rows.cpu() + first], 1)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :k], rows.gather(1, order)[:, :k]


def belongs(path: Path, record: BankRecord) -> bool:
    """Return whether a file has vectors of this bank."""
    try:
        own_record = _read_record(path)
    except InputError:
        return False
    return (own_record.sha256, own_record.fingerprint) == (record.sha256, record.fingerprint)


def _parts(folder: Path) -> Iterator[tuple[int, int]]:
    for path in folder.glob(VECTORS):
        if numbers := _PART.fullmatch(path.name):
            yield int(numbers[1]), int(numbers[2])


def _write(path: Path, table: pa.Table, record: BankRecord, **options: Any) -> None:
    import pyarrow.parquet as pq

    about = json.dumps({"format": FORMAT} | dataclasses.asdict(record), ensure_ascii=False)
    table = table.replace_schema_metadata({_RECORD: about})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=True) as part:
        pq.write_table(
            table,
            part,
            write_page_checksum=True,
            use_dictionary=False,
            write_statistics=False,
            **options,
        )


def _read_record(path: Path) -> BankRecord:
    """Read the record in the metadata of a file."""
    import pyarrow.parquet as pq

    with _reading(path):
        metadata = pq.read_schema(path).metadata or {}
    damaged = DamagedError(
        f"{path} is damaged or no caption bank; choose another folder, or delete the file and "
        "build the bank again."
    )
    try:
        header = parse_json(metadata[_RECORD], path)
        version = int(header.pop("format"))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise damaged from None
    check_version(version, FORMAT, f"The caption bank in {path.parent}", _BUILD_AGAIN)
    try:
        return validated(BankRecord, header, path)
    except InputError:
        raise damaged from None


@contextlib.contextmanager
def _reading(path: Path, name: str = "") -> Iterator[None]:
    """Turn errors of a file into one sentence for the user."""
    from pyarrow import ArrowException

    try:
        yield
    except (OSError, ValueError, IndexError, ArrowException) as error:
        reason = one_line(error)[:200].rstrip(".")
        raise DamagedError(
            f"{name or path.name} in {path.parent} is damaged or cannot be read ({reason}); build "
            "the bank again (captions build): the other embeddings are kept."
        ) from None
