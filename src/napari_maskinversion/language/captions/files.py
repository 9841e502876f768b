"""Captions as people keep them: a text file with one a line, or a column of a CSV file."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.errors import InputError

COLUMNS: Final = ("caption", "text", "title")
# Models read some 77 tokens; a longer line is rather a file of another kind.
MOST_CHARACTERS: Final = 5_000
# A million take about 200 MB while they are embedded.
MOST_CAPTIONS: Final = 5_000_000
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captions:
    """Captions, each once, in the order in which they first appear.

    Attributes
    ----------
    texts : tuple of str
        At least one; white space within them is single spaces.
    source : str
        Name of the file; empty if there is none.
    blank, repeated : int
        Lines that held nothing, and lines left out because they were there before.
    """

    texts: tuple[str, ...]
    source: str = ""
    blank: int = 0
    repeated: int = 0

    @classmethod
    def of(cls, lines: Iterable[str], source: str = "") -> Captions:
        """Gather captions from lines: blank ones and repetitions are counted and left out.

        Raises
        ------
        InputError
            If none is left, one is no caption (longer than 5,000 characters, or with a null
            character), or there are more than five million.
        """
        found: dict[str, None] = {}
        blank = repeated = 0
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_CHARACTERS:
                raise InputError(
                    f"Caption {number} has {len(line):,} characters and at most "
                    f"{MOST_CHARACTERS:,} make sense; give one caption a line (in a CSV file, "
                    "look for a double quote that is left open)."
                )
            if "\0" in line:
                raise InputError(
                    f"Caption {number} holds a null character: this is no text, or UTF-16 "
                    "without its mark; save it as UTF-8, or say --encoding utf-16-le."
                )
            text = " ".join(line.split())
            if not text:
                blank += 1
            elif text in found:
                repeated += 1
            else:
                found[text] = None
                if len(found) > MOST_CAPTIONS:
                    raise InputError(
                        f"There are more than {MOST_CAPTIONS:,} captions; split them into "
                        "several files."
                    )
        if not found:
            raise InputError("There are no captions; give one a line.")
        return cls(texts=tuple(found), source=source, blank=blank, repeated=repeated)

    @property
    def sha256(self) -> str:
        """Hash of the captions and their order, 64 hexadecimal digits."""
        content = hashlib.sha256()
        for text in self.texts:
            content.update(encoded(text))
        return content.hexdigest()

    @property
    def left_out(self) -> str:
        """Say what was left out; empty where nothing was."""
        return left_out(self.blank, self.repeated)


def left_out(blank: int, repeated: int) -> str:
    """Say how many blank and repeated lines were left out; empty where none was."""
    counts = ((blank, "blank"), (repeated, "repeated"))
    said = " and ".join(f"{count:,} {what}" for count, what in counts if count)
    return f"{said} left out" if said else ""


def encoded(text: str) -> bytes:
    """Give a caption as it is written and hashed: UTF-8 and a line end."""
    return text.encode("utf-8", "surrogatepass") + b"\n"


def read_captions(
    path: str | Path, *, column: str | None = None, encoding: str | None = None
) -> Captions:
    """Read captions from a text file (one a line) or a CSV or TSV file (a column of it).

    Parameters
    ----------
    path : str or Path
        A CSV file if it ends in .csv or .tsv, or if a column is given. Fields may be separated
        by commas, semicolons or tabs.
    column : str, optional
        Name of the column; else caption, text or title, in this order, in capitals or not.
    encoding : str, optional
        Else UTF-8, or what the mark at the file's beginning says (UTF-16, UTF-32).

    Raises
    ------
    InputError
        If the file cannot be read, is not in that encoding, lacks the column, or holds no
        captions (see `Captions.of`); names the file.
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            used = encoding or _encoding(raw.read(4))
            raw.seek(0)
            # CSV fields may hold line ends of their own.
            table = column is not None or path.suffix.lower() in {".csv", ".tsv"}
            with io.TextIOWrapper(raw, used, newline="" if table else None) as file:
                lines = _column(file, column, path.suffix.lower()) if table else _lines(file)
                return Captions.of(lines, source=path.name)
    except UnicodeError:
        raise InputError(
            f"{path} is not {used.upper()} text; save it as UTF-8, or say in which encoding it "
            "is, for example --encoding latin-1 (in the panel under File options)."
        ) from None
    except LookupError:
        raise InputError(
            f"There is no encoding {encoding!r}; known are utf-8, latin-1, utf-16 and others."
        ) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"Captions could not be read from {path}: {error.strerror}.") from None


def _encoding(start: bytes) -> str:
    return next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")


def _lines(file: io.TextIOWrapper) -> Iterator[str]:
    # Piece by piece: a file without line ends is refused before it fills the memory.
    while line := file.readline(MOST_CHARACTERS + 2):
        yield line.removesuffix("\n")


def _column(file: io.TextIOWrapper, column: str | None, suffix: str) -> Iterator[str]:
    header = file.readline()
    wanted = COLUMNS if column is None else (column,)
    separators = "\t" if suffix == ".tsv" else ",;\t"
    for separator in separators:
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
        place = _place(names, wanted)
        if place is not None:
            break
    else:
        names = [name.strip() for name in next(csv.reader([header]), [])]
        raise InputError(
            f"There is no column {' or '.join(wanted)}; the columns are "
            f"{', '.join(names[:20]) or 'missing'}. Name one with --column (in the "
            "panel under File options)."
        )
    rows = csv.reader(file, delimiter=separator)
    try:
        for row in rows:
            yield row[place] if place < len(row) else ""
    except csv.Error as error:
        raise InputError(
            f"Line {rows.line_num + 1} is no CSV ({error}); look for a double quote left open."
        ) from None


def _place(names: list[str], wanted: tuple[str, ...]) -> int | None:
    if not names:
        return None
    plain = [name.lower() for name in names]
    for name in wanted:
        if name in names:
            return names.index(name)
        if name.lower() in plain:
            return plain.index(name.lower())
    return None
