"""A caption bank as a folder: captions, one vector each, and what is finished of them.

``captions.txt`` holds the captions, ``vectors.npy`` their unit vectors (captions, e) in float16,
``bank.jsonl`` in its first line what they are and then one line for each piece that is finished:
``[block, rows, crc32]``, the latest line of a block counts. Vectors reach the disk before the line
that names them, so whatever interrupts the work, what a line names is there; a block whose bytes
do not fit its line is embedded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from ...base.atomic_files import replacing
from ...base.errors import InputError
from .files import Captions, encoded

RECORD: Final = "bank.jsonl"
TEXTS: Final = "captions.txt"
VECTORS: Final = "vectors.npy"
LOCK: Final = ".lock"
FORMAT: Final = 1
# Rows that are finished, checked and, where they are damaged, made again together.
BLOCK: Final = 1024
_PIECE: Final = 1 << 20

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRecord:
    """What a caption bank holds.

    Attributes
    ----------
    model, fingerprint : str
        Name of the model that embedded it; hash of its name, weights and use.
    embed_dim : int
        Numbers of a vector.
    count : int
        Captions.
    sha256 : str
        Hash of the captions and their order.
    source : str
        Name of the file they came from.
    blank, repeated : int
        Lines of it that were left out.
    """

    model: str
    fingerprint: str
    embed_dim: int
    count: int
    sha256: str
    source: str = ""
    blank: int = 0
    repeated: int = 0


class NewerBankError(InputError):
    """A bank in a format that only a newer version knows."""


class CaptionStore:
    """The files of a bank. `open` and `create` make one; neither keeps a file open."""

    def __init__(self, folder: Path, record: BankRecord, finished: dict[int, tuple[int, int]]):
        self.folder = folder
        self.record = record
        self._finished = finished
        self._header = _npy_header(record)

    @classmethod
    def open(cls, folder: Path) -> CaptionStore:
        """Open the bank in a folder, finished or not.

        Raises
        ------
        InputError
            If there is none, or its record cannot be read or is of a newer version.
        """
        try:
            lines = (folder / RECORD).read_bytes().split(b"\n")
        except OSError:
            raise InputError(
                f"There is no caption bank in {folder}; build one: captions build FILE."
            ) from None
        try:
            values = json.loads(lines[0])
            version = int(values.pop("format"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _unreadable(folder) from None
        if version > FORMAT:
            raise NewerBankError(
                f"The caption bank in {folder} was made by a newer version of this program "
                f"(format {version}); update it, or build the bank in another folder."
            )
        try:
            record = BankRecord(**values)
            fits = record.count > 0 and record.embed_dim > 0
        except TypeError:
            fits = False
        if not fits:
            raise _unreadable(folder)
        # A line cut short by a crash names nothing.
        finished: dict[int, tuple[int, int]] = {}
        for line in lines[1:]:
            with contextlib.suppress(ValueError, TypeError):
                block, rows, crc = (int(value) for value in json.loads(line))
                if 0 <= block * BLOCK < record.count and 0 < rows <= rows_of(record, block):
                    finished[block] = (rows, crc)
        return cls(folder, record, finished)

    @classmethod
    def create(cls, folder: Path, record: BankRecord, captions: Captions) -> CaptionStore:
        """Lay out an empty bank; what a bank in the folder held is gone.

        Raises
        ------
        OSError
            If the folder cannot be written to.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        store = cls(folder, record, {})
        store.write_texts(captions)
        store.lay_out()
        line = json.dumps({"format": FORMAT} | asdict(record), ensure_ascii=False) + "\n"
        _replace(folder / RECORD, [line.encode()])
        return store

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.record.count // BLOCK)

    def rows(self, block: int) -> int:
        """Rows of a block: 1,024, fewer in the last one."""
        return rows_of(self.record, block)

    def finished(self, block: int) -> int:
        """Rows of a block that are embedded; they are its first."""
        return self._finished.get(block, (0, 0))[0]

    @property
    def done(self) -> int:
        """Captions that are embedded."""
        return sum(rows for rows, _ in self._finished.values())

    @property
    def complete(self) -> bool:
        """Every caption is embedded."""
        return self.done == self.record.count

    def write_texts(self, captions: Captions) -> None:
        """Write the captions, whole or not at all."""
        _replace(self.folder / TEXTS, (encoded(text) for text in captions.texts))

    def read_starts(self) -> npt.NDArray[np.int64]:
        """Give the byte at which each caption starts, (captions + 1,), after a look at them all.

        Raises
        ------
        InputError
            If the captions are not the ones that were written.
        """
        content, ends, at = hashlib.sha256(), [np.zeros(1, np.int64)], 0
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
        """Make the file of vectors, or give it its length again; rows that are there stay."""
        path = self.folder / VECTORS
        size = len(self._header) + self.record.count * self._row_bytes
        with path.open("r+b" if path.exists() else "w+b") as file:
            if file.read(len(self._header)) != self._header:
                file.seek(0)
                file.write(self._header)
            file.truncate(size)

    @contextlib.contextmanager
    def reading(self) -> Iterator[VectorFile]:
        """Open the vectors for reading.

        Raises
        ------
        InputError
            If they are missing.
        """
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
        """Check sum of a block's finished rows."""
        return self._finished.get(block, (0, 0))[1]

    def offset(self, row: int) -> int:
        """Byte at which a row starts."""
        return len(self._header) + row * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return 2 * self.record.embed_dim

    def forget(self, block: int) -> None:
        """Take a block as not embedded."""
        self._finished.pop(block, None)

    def commit(self, block: int, vectors: Sequence[FloatArray]) -> None:
        """Add vectors (rows, e) after a block's finished ones, on the disk when this returns.

        Raises
        ------
        OSError
            If they cannot be written; what was finished before stays.
        """
        rows, crc = self._finished.get(block, (0, 0))
        data = np.concatenate(vectors).astype("<f2").tobytes()
        with (self.folder / VECTORS).open("r+b") as file:
            file.seek(self.offset(block * BLOCK + rows))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        state = (rows + len(data) // self._row_bytes, zlib.crc32(data, crc))
        # In one call, and after a line end of its own: one line may have been cut short before.
        line = b"\n" + json.dumps([block, *state]).encode() + b"\n"
        with (self.folder / RECORD).open("ab", buffering=0) as journal:
            journal.write(line)
        self._finished[block] = state


class VectorFile:
    """The vectors of a bank, open; rows are read, not mapped: a lost disk is no crash."""

    def __init__(self, file: BinaryIO, store: CaptionStore) -> None:
        self._file = file
        self._store = store

    def read(self, first: int, last: int) -> HalfArray:
        """Rows (last - first, e) as they are; fewer where the file has lost its end."""
        rows = np.empty((last - first, self._store.record.embed_dim), "<f2")
        self._file.seek(self._store.offset(first))
        count = self._file.readinto(rows.data.cast("B"))  # type: ignore[attr-defined]
        return rows[: count // rows.itemsize // rows.shape[1]].astype(np.float16, copy=False)

    def sound(self, block: int, rows: HalfArray | None = None) -> bool:
        """Tell whether the finished rows of a block are those that were written."""
        wanted = self._store.finished(block)
        if rows is None:
            rows = self.read(block * BLOCK, block * BLOCK + wanted)
        data = rows[:wanted].astype("<f2", copy=False)
        return len(data) == wanted and zlib.crc32(data.tobytes()) == self._store.crc(block)


def rows_of(record: BankRecord, block: int) -> int:
    """Rows of a block: 1,024, fewer in the last one."""
    return min(BLOCK, record.count - block * BLOCK)


def bytes_of(record: BankRecord, captions: Captions) -> int:
    """Room that a bank takes on the disk."""
    return 2 * record.embed_dim * record.count + sum(len(encoded(text)) for text in captions.texts)


def _npy_header(record: BankRecord) -> bytes:
    header = io.BytesIO()
    about = {"descr": "<f2", "fortran_order": False, "shape": (record.count, record.embed_dim)}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def _unreadable(folder: Path) -> InputError:
    return InputError(
        f"{folder / RECORD} is damaged or no caption bank; build the bank again in this folder, "
        "or choose another."
    )


def _replace(path: Path, pieces: Iterator[bytes] | list[bytes]) -> None:
    with replacing(path, durable=True) as part, part.open("wb") as file:
        file.writelines(pieces)
