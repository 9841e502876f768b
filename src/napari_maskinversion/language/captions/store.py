"""A caption bank on disk: captions, one vector each, and a journal of finished pieces.

``captions.txt`` has the captions, ``vectors.npy`` their unit vectors (captions, e) in float16.
The first line of ``bank.jsonl`` is the `BankRecord`, each further line a finished piece
``[block, rows, crc32]``; the last line of a block counts. Vectors are flushed to disk before the
line that names them, so after a crash every row of a line is there. A block that does not match
its checksum is embedded again.

zarr is no faster and saves no code: see docs/lab/caption-banks.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from ...base.atomic_files import replacing
from ...base.errors import InputError
from ...base.reading import check_kind, parse_json, read_bytes, validated
from .caption_files import MAX_CAPTIONS, Captions, encode_line, skipped_lines

RECORD: Final = "bank.jsonl"
TEXTS: Final = "captions.txt"
VECTORS: Final = "vectors.npy"
FORMAT: Final = 1
# Rows that are checked, and embedded again if damaged, together.
BLOCK: Final = 1024
_PIECE: Final = 1 << 20
_MOST_RECORD: Final = 1 << 28  # bytes of the journal

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class BankRecord:
    """Model and captions of a caption bank."""

    model: str  # Name of the model that embedded it; hash of its name, weights and preprocessing
    fingerprint: str
    embed_dim: Annotated[int, Field(ge=1, le=100_000)]  # Length of a vector
    count: Annotated[int, Field(ge=1, le=MAX_CAPTIONS)]  # Number of captions
    sha256: str  # Hash of the captions and their order
    source: str = ""  # Name of the file they came from
    blank: int = 0  # Numbers of blank and repeated lines in the file, which were skipped
    repeated: int = 0

    @property
    def skipped(self) -> str:
        """How many lines of the file were skipped, in words; "" for none."""
        return skipped_lines(self.blank, self.repeated)


class NewerBankError(InputError):
    """A bank in the format of a newer version."""


class CaptionStore:
    """The files of a bank. `open` and `create` return one; neither keeps a file open."""

    def __init__(self, folder: Path, record: BankRecord, finished: dict[int, tuple[int, int]]):
        self.folder = folder
        self.record = record
        self._finished = finished
        self._header = _npy_header(record)

    @classmethod
    def open(cls, folder: Path) -> CaptionStore:
        """Open the bank in a folder, finished or not."""
        try:
            data = read_bytes(folder / RECORD, "journal of a caption bank", most=_MOST_RECORD)
        except InputError as error:
            raise InputError(
                f"There is no caption bank in {folder}; build one: captions build FILE. ({error})"
            ) from None
        lines = data.split(b"\n")
        try:
            header = parse_json(lines[0], "its first line")
            version = int(header.pop("format"))
            record = None if version > FORMAT else validated(BankRecord, header, "its first line")
        except InputError as error:
            raise _unreadable(folder, str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise _unreadable(folder, "its first line has no format") from None
        if record is None:
            raise NewerBankError(
                f"The caption bank in {folder} was made by a newer version of this program "
                f"(format {version}); update it, or build the bank in another folder."
            )
        # A line cut short by a crash does not count.
        finished: dict[int, tuple[int, int]] = {}
        for line in lines[1:]:
            with contextlib.suppress(ValueError, TypeError, OverflowError):
                block, rows, crc = (int(value) for value in parse_json(line, "journal"))
                if 0 <= block * BLOCK < record.count and 0 < rows <= rows_of(record, block):
                    finished[block] = (rows, crc)
        return cls(folder, record, finished)

    @classmethod
    def create(cls, folder: Path, record: BankRecord, captions: Captions) -> CaptionStore:
        """Create an empty bank; an existing bank in the folder is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        store = cls(folder, record, {})
        # The record comes first: without it captions and vectors could be the user's own.
        line = json.dumps({"format": FORMAT} | asdict(record), ensure_ascii=False) + "\n"
        _replace(folder / RECORD, [line.encode()])
        store.write_texts(captions)
        store.lay_out()
        return store

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.record.count // BLOCK)

    def rows(self, block: int) -> int:
        """Number of rows of a block: 1,024, fewer in the last one."""
        return rows_of(self.record, block)

    def finished(self, block: int) -> int:
        """Number of embedded rows of a block, always its first ones."""
        return self._finished.get(block, (0, 0))[0]

    @property
    def done(self) -> int:
        """Number of embedded captions."""
        return sum(rows for rows, _ in self._finished.values())

    @property
    def complete(self) -> bool:
        """Whether every caption is embedded."""
        return self.done == self.record.count

    def write_texts(self, captions: Captions) -> None:
        """Write the captions, whole or not at all."""
        _replace(self.folder / TEXTS, map(encode_line, captions.texts))

    def read_starts(self) -> npt.NDArray[np.int64]:
        """Read and check all captions; return where each one starts (captions + 1,)."""
        content, ends, at = hashlib.sha256(), [np.zeros(1, np.int64)], 0
        check_kind(self.folder / TEXTS)
        with contextlib.suppress(OSError), (self.folder / TEXTS).open("rb") as file:
            while piece := file.read(_PIECE):
                content.update(piece)
                ends.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == 10) + (at + 1))
                at += len(piece)
        starts = np.concatenate(ends)
        if len(starts) != self.record.count + 1 or content.hexdigest() != self.record.sha256:
            raise InputError(
                f"The captions in {self.folder / TEXTS} are damaged; build the bank again from "
                "the file they came from (captions build FILE): what is embedded is kept."
            )
        return starts

    def lay_out(self) -> None:
        """Create the file of vectors, or restore its header and length; existing rows stay."""
        path = self.folder / VECTORS
        size = len(self._header) + self.record.count * self._row_bytes
        with path.open("r+b" if path.exists() else "w+b") as file:
            if file.read(len(self._header)) != self._header:
                file.seek(0)
                file.write(self._header)
            file.truncate(size)

    @contextlib.contextmanager
    def reading(self) -> Iterator[VectorFile]:
        """Open the vectors for reading."""
        check_kind(self.folder / VECTORS)
        try:
            file = (self.folder / VECTORS).open("rb")
        except OSError as error:
            raise InputError(
                f"The vectors in {self.folder / VECTORS} cannot be read ({error.strerror}); "
                "build the bank again."
            ) from None
        with file:
            yield VectorFile(file, self)

    def crc(self, block: int) -> int:
        """Checksum of a block's finished rows."""
        return self._finished.get(block, (0, 0))[1]

    def offset(self, row: int) -> int:
        """Byte that a row starts at."""
        return len(self._header) + row * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return 2 * self.record.embed_dim

    def forget(self, block: int) -> None:
        """Treat a block as not embedded."""
        self._finished.pop(block, None)

    def commit(self, block: int, vectors: Sequence[FloatArray]) -> None:
        """Append vectors (rows, e) to a block; they are on disk when this returns."""
        rows, crc = self._finished.get(block, (0, 0))
        data = np.concatenate(vectors).astype("<f2").tobytes()
        with (self.folder / VECTORS).open("r+b") as file:
            file.seek(self.offset(block * BLOCK + rows))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        state = (rows + len(data) // self._row_bytes, zlib.crc32(data, crc))
        # Written in one call, after a line end: the last line may have been cut short.
        line = b"\n" + json.dumps([block, *state]).encode() + b"\n"
        with (self.folder / RECORD).open("ab", buffering=0) as journal:
            journal.write(line)
        self._finished[block] = state


class VectorFile:
    """Open vectors of a bank, read and not mapped: a lost disk is an error, not a crash."""

    def __init__(self, file: BinaryIO, store: CaptionStore) -> None:
        self._file = file
        self._store = store

    def read(self, first: int, last: int) -> HalfArray:
        """Read rows, shape (last - first, e); fewer if the file was cut short."""
        rows = np.empty((last - first, self._store.record.embed_dim), "<f2")
        self._file.seek(self._store.offset(first))
        count = self._file.readinto(rows.data.cast("B"))  # type: ignore[attr-defined]
        return rows[: count // rows.itemsize // rows.shape[1]].astype(np.float16, copy=False)

    def intact(self, block: int, rows: HalfArray | None = None) -> bool:
        """Whether the finished rows of a block match their checksum."""
        count = self._store.finished(block)
        if rows is None:
            rows = self.read(block * BLOCK, block * BLOCK + count)
        data = rows[:count].astype("<f2", copy=False)
        return len(data) == count and zlib.crc32(data.tobytes()) == self._store.crc(block)


def rows_of(record: BankRecord, block: int) -> int:
    """Return the number of rows of a block: 1,024, fewer in the last one."""
    return min(BLOCK, record.count - block * BLOCK)


def size_on_disk(record: BankRecord, captions: Captions) -> int:
    """Return the bytes that a bank takes on disk."""
    return 2 * record.embed_dim * record.count + sum(map(len, map(encode_line, captions.texts)))


def _npy_header(record: BankRecord) -> bytes:
    header = io.BytesIO()
    about = {"descr": "<f2", "fortran_order": False, "shape": (record.count, record.embed_dim)}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def _unreadable(folder: Path, reason: str) -> InputError:
    return InputError(
        f"{folder / RECORD} is damaged or no caption bank ({reason.rstrip('.')}); choose another "
        "folder, or delete the file and build the bank again."
    )


def _replace(path: Path, pieces: Iterator[bytes] | list[bytes]) -> None:
    with replacing(path, durable=True) as part, part.open("wb") as file:
        file.writelines(pieces)
