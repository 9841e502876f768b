"""Read what users and other programs wrote; any problem is one line.

Every reader goes through `check_file`, and everything in JSON through `parse_json`. Projects and
names in YAML go through `parse_yaml`, tables of images, regions and marks through `read_rows`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path, PurePath
from time import monotonic
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import InputError
from .progress import CHECKING, INTERVAL, tick
from .validation import config_error
from .wording import one_line

if TYPE_CHECKING:
    import numpy as np

MOST_SETTINGS: Final = 16 * 2**20  # bytes of a file of settings
MOST_JSON: Final = 2 * 2**30  # bytes of a file of annotations
MOST_NPY_HEAD: Final = 10_000  # characters of an array's description

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+]{1,9}:/")
Model = TypeVar("Model")


def is_address(path: Path | str) -> bool:
    """Return whether a path is an address that fsspec reads."""
    return _ADDRESS.match(Path(path).as_posix()) is not None


def check_file(
    path: Path, kind: str = "file", *, most: int | None = None, folder: bool = False
) -> int:
    """Refuse what is not there, not a file, or larger than ``most`` bytes; return its size."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise _unreadable(path, kind, error) from None
    if path.is_dir() and not folder:
        raise InputError(f"{path} is a folder; name one file ({kind}).")
    check_kind(path)
    if most is not None and size > most:
        raise InputError(
            f"{path} has {size / 1e6:,.0f} MB; a {kind} has at most {most / 1e6:,.0f} MB."
        )
    return size


def check_kind(path: Path) -> None:
    """Refuse a pipe or a device, which never end, and what macOS adds to disks of others."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # whoever opens it says why
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path} is not a file; save its content in a file first.")
    if path.name.startswith("._") and stat.S_ISREG(mode):
        raise InputError(
            f"{path} is what macOS keeps beside a file, not the file; name {path.name[2:]} instead."
        )


def is_of_macos(path: PurePath) -> bool:
    """Return whether a path is by its name what macOS keeps beside files."""
    of_finder = path.name.startswith("._") or path.name == ".DS_Store"
    return of_finder or "__MACOSX" in path.parts


def read_bytes(path: Path, kind: str = "file", *, most: int = MOST_SETTINGS) -> bytes:
    """Read a whole file."""
    check_file(path, kind, most=most)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, kind, error) from None


def read_text(path: Path, kind: str = "file", *, most: int = MOST_SETTINGS) -> str:
    """Read a text file in UTF-8."""
    return decoded(read_bytes(path, kind, most=most), path)


def decoded(content: bytes, name: object) -> str:
    """Return a text in UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is not text in UTF-8; save it as UTF-8 (in Excel: CSV UTF-8; of a Chinese "
            "Windows: iconv -f gb18030 -t utf-8)."
        ) from None


def read_rows(
    path: Path,
    kind: str = "table",
    *,
    needed: Sequence[str] = (),
    known_columns: Collection[str] = (),
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read a CSV file in UTF-8: commas, semicolons or tabs between cells.

    The sign between cells is the one that finds most ``known`` columns, else most columns. Only one
    of several columns with the name of a known one can be right; if none is known, that is all.
    """
    text = read_text(path, kind)
    if match := re.match(r"sep=([,;\t])(?=[\r\n])", text):  # Excel's own line
        text = text[match.end() :]
        separator = match[1]
    else:
        head = next((line for line in text.splitlines() if line.strip()), "")

        def fits(sign: str) -> tuple[int, int]:
            cells = [cell.strip().strip('"').lower() for cell in head.split(sign)]
            return sum(cell in known_columns for cell in cells), len(cells)

        separator = max(",;\t", key=fits)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    columns: list[str] = []
    rows = 0
    following = 1
    try:
        for cells in reader:
            # Where the row begins: a cell may span lines.
            line = following
            following = reader.line_num + 1
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if not columns:
                columns = [cell.lower() for cell in cells]
                _check_columns(path, columns, needed, known_columns or columns)
                continue
            if any(cells[len(columns) :]):
                raise InputError(
                    f"{path}, line {line} has more cells than there are columns; put "
                    f"double quotes around a cell with {separator!r} in it, and write numbers with "
                    "a point."
                )
            rows += 1
            cells += [""] * (len(columns) - len(cells))
            yield line, dict(zip(columns, cells, strict=False))
    except csv.Error as error:
        raise InputError(
            f"{path}, line {following}: this is not CSV ({error}); look for a double quote that is "
            "never closed."
        ) from None
    if not rows:
        raise InputError(f"{path} has no rows below the names of its columns.")


def _check_columns(
    path: Path, columns: Sequence[str], needed: Sequence[str], single: Collection[str]
) -> None:
    if missing := [name for name in needed if name not in columns]:
        raise InputError(
            f"{path} has no column {missing[0]!r}; it has {', '.join(columns)} and needs "
            f"{', '.join(needed)}."
        )
    if twice := [name for name in columns if name in single and name and columns.count(name) > 1]:
        raise InputError(f"{path} has two columns {twice[0]!r}; keep one.")


def check_version(version: object, current: int, file: str, otherwise: str) -> None:
    """Refuse a file of this program in a format other than the current one.

    ``otherwise`` says what to do instead of updating the program.
    """
    if version == current:
        return
    if isinstance(version, int) and version > current:
        raise InputError(
            f"{file} was written by a newer version of this program (format {version}; this one "
            f"reads up to {current}); update the program, or {otherwise}."
        )
    raise of_development_version(file, otherwise)


def of_development_version(file: str, otherwise: str) -> InputError:
    """Return the refusal of a file that is older than every format that is read."""
    return InputError(
        f"{file} was written by a development version of this program and is read no more; "
        f"{otherwise}."
    )


def read_json(path: Path, kind: str = "file", *, most: int = MOST_SETTINGS) -> Any:
    """Read a JSON file in UTF-8."""
    return parse_json(read_bytes(path, kind, most=most), path)


def parse_json(text: str | bytes, name: object) -> Any:
    """Read JSON."""
    if isinstance(text, bytes):
        text = decoded(text, name)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is broken JSON: {error}.") from None


def parse_yaml(content: bytes, name: object, *, texts: bool = False) -> Any:
    """Read YAML as plain values, or all as texts: ``no`` is not false, ``1.0`` no number."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """One that refuses a key twice, of which YAML takes the last one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            lines: dict[tuple[str, str], int] = {}
            for key, _ in node.value:
                about = (key.tag, str(key.value))
                line = key.start_mark.line + 1
                if about in lines:
                    raise InputError(
                        f"{name} has {key.value!r} twice, in the lines {lines[about]} and "
                        f"{line}; keep one."
                    )
                lines[about] = line
            return super().construct_mapping(node, deep)

    if texts:
        resolvers = {}
        for start, forms in Loader.yaml_implicit_resolvers.items():
            resolvers[start] = [(tag, form) for tag, form in forms if tag.endswith(":null")]
        Loader.yaml_implicit_resolvers = resolvers
    try:
        return yaml.load(decoded(content, name), Loader)
    except InputError:  # it is a ValueError
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that is none
        line = ""
        if mark := getattr(error, "problem_mark", None):
            line = f" in line {mark.line + 1}"
        why = f"{line} ({getattr(error, 'problem', None) or one_line(error)})"
    raise InputError(f"{name} is not YAML{why}.")


def validated(kind: type[Model], values: Any, name: object) -> Model:
    """Return values as a pydantic model."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise InputError(f"{name}: {config_error(error)}") from None


def _unreadable(path: Path, kind: str, error: OSError | ValueError) -> InputError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if is_address(path):
            return InputError(f"{path} is an address on the network; download the file first.")
        are = "are" if kind == "masks" else "is"
        return InputError(f"There {are} no {kind} at {path}; check the path.")
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path} cannot be read as {kind} ({reason}).")


def read_npy_head(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the head of an array in ``.npy`` format: shape, Fortran order, type."""
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    if version == (1, 0):
        read = npy.read_array_header_1_0
    else:
        read = npy.read_array_header_2_0
    try:
        return read(file, max_header_size=MOST_NPY_HEAD)
    except TokenError as error:
        raise ValueError(f"the head of an array is damaged ({error.args[0]})") from None


# -- hashes: large files are read in pieces, between which the work can be stopped ---------------

PIECE: Final = 2**20  # bytes that are read at once


class ByteReader(Protocol):
    """A file that is open for reading bytes."""

    def read(self, count: int, /) -> bytes:
        """Return the next bytes; none at the end."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb", buffering=0) as file:
        return sha256_of_stream(file, os.fstat(file.fileno()).st_size)


def sha256_of_stream(file: ByteReader, size: int) -> str:
    """Return the SHA-256 of what an open file holds; ``size`` is its length for the progress."""
    digest = sha256()
    done = 0
    last_tick = monotonic()
    while piece := file.read(PIECE):
        digest.update(piece)
        done += len(piece)
        if monotonic() - last_tick > INTERVAL:
            tick(CHECKING, done, size)
            last_tick = monotonic()
    return digest.hexdigest()
