"""Caption files: a text file with one caption per line, or a column of a CSV file."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.errors import InputError
from ...base.reading import check_file
from ...base.validation import composed, without_hidden

COLUMNS: Final = ("caption", "text", "title")
# Models read some 77 tokens; a longer line suggests another kind of file.
MAX_CHARACTERS: Final = 5_000
_NOT_READ: Final = (".json", ".jsonl", ".xml")
_EXCEL: Final = re.compile(r"sep=([,;\t])[\r\n]*")  # its own line for the separator
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captions:
    """Unique captions in the order they first appear."""

    # At least one; white space within them is single spaces, letters are in Unicode's form NFC
    texts: tuple[str, ...]
    source: str = ""  # Name of the file; empty if there is none
    blank: int = 0  # Numbers of skipped lines: blank ones, and repetitions
    repeated: int = 0

    @classmethod
    def of(cls, lines: Iterable[str], source: str = "") -> Captions:
        """Collect captions from lines; blank lines and repetitions are counted and skipped."""
        texts: dict[str, None] = {}
        blank = repeated = 0
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_CHARACTERS:
                raise InputError(
                    f"Caption {number} has {len(line):,} characters; write one caption of at most "
                    f"{MAX_CHARACTERS:,} per line (in CSV, look for an unclosed double quote)."
                )
            if "\0" in line:
                raise InputError(
                    f"Caption {number} has a null character: this is not text, or UTF-16 "
                    "without its mark; save it as UTF-8, or use --encoding utf-16-le."
                )
            text = " ".join(without_hidden(composed(line)).split())
            if not text:
                blank += 1
            elif text in texts:
                repeated += 1
            else:
                texts[text] = None
        if not texts:
            raise InputError("There are no captions; write one per line.")
        return cls(texts=tuple(texts), source=source, blank=blank, repeated=repeated)

    @property
    def sha256(self) -> str:
        """Hash of the captions and their order, 64 hexadecimal digits."""
        content = hashlib.sha256()
        for text in self.texts:
            content.update(encode_line(text))
        return content.hexdigest()


def skipped_lines(blank: int, repeated: int) -> str:
    """Return how many blank and repeated lines were skipped, in words; "" for none."""
    counts = ((blank, "blank"), (repeated, "repeated"))
    listed = " and ".join(f"{count:,} {kind}" for count, kind in counts if count)
    if listed:
        return f"{listed} left out"
    return ""


def encode_line(text: str) -> bytes:
    """Encode a caption for storage and hashing: UTF-8 and a line end."""
    return text.encode("utf-8", "surrogatepass") + b"\n"


def read_captions(
    path: str | Path, *, column: str | None = None, encoding: str | None = None
) -> Captions:
    """Read captions from a text file (one per line) or a column of a CSV or TSV file."""
    path = Path(path)
    check_file(path, "file of captions")
    suffix = path.suffix.lower()
    if suffix in _NOT_READ:
        raise InputError(f"{path} is no file of captions; save them as text (one a line) or CSV.")
    table = column is not None or suffix in {".csv", ".tsv"}
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            marked = next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")
            used = encoding or marked
            raw.seek(0)
            # CSV fields may contain line ends.
            with io.TextIOWrapper(raw, used, newline="" if table else None) as file:
                plain = (line.removesuffix("\n") for line in file)
                lines = _column(file, column, suffix) if table else plain
                return Captions.of(lines, source=path.name)
    except UnicodeError:
        raise InputError(
            f"{path} is not {used.upper()} text; save it as UTF-8, or name its encoding, "
            "for example --encoding latin-1 (in the panel under File options)."
        ) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except csv.Error as error:
        raise InputError(
            f"{path} is not CSV ({error}); look for an unclosed double quote."
        ) from None
    except LookupError:
        raise InputError(
            f"There is no encoding {encoding!r}; known are utf-8, latin-1, utf-16 and others."
        ) from None


def _column(file: io.TextIOWrapper, column: str | None, suffix: str) -> Iterator[str]:
    separators = ",;\t"
    if suffix == ".tsv":
        separators = "\t"
    header = "\n"
    while header and not header.strip():
        header = file.readline().removeprefix("\ufeff")  # a mark stays if the encoding is named
        if marked := _EXCEL.fullmatch(header):
            separators = marked[1]
            header = "\n"
    separator, place = _find_column(header, separators, column)
    for row in csv.reader(file, delimiter=separator):
        yield row[place] if place < len(row) else ""


def _find_column(header: str, separators: str, column: str | None) -> tuple[str, int]:
    """Return the separator that gives the header a column to read, and its place."""
    wanted = COLUMNS if column is None else (column,)
    tables = {}
    for mark in separators:
        tables[mark] = [name.strip() for name in next(csv.reader([header], delimiter=mark), [])]
    for mark, names in tables.items():
        # As it is written, or else in other capitals; in the order of `wanted`.
        fits = [name for name in wanted if name in names]
        for name in wanted:
            fits += [written for written in names if written.lower() == name.lower()]
        if fits and names.count(fits[0]) > 1:
            raise InputError(f"There are two columns {fits[0]!r}; keep one.")
        if fits:
            return mark, names.index(fits[0])
    names = tables[separators[0]]
    raise InputError(
        f"There is no column {' or '.join(wanted)}; the columns are "
        f"{', '.join(filter(None, names[:20])) or 'missing'}. Name one with --column, in run and "
        "batch --caption-column, in the panel under File options."
    )
