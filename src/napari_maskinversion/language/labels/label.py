"""One label, labels as text, and the sentences that labels are put into.

As text, labels stand one a line or separated by commas, synonyms after a pipe. Each has a
colour of its own.
"""

from __future__ import annotations

import colorsys
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...base.errors import InputError
from ...base.preferences import SAFE, load
from ...base.validation import CONTROL, composed, without_hidden

NONE_OF_THESE: Final = "none of these"
"""The suggestion for a region that no label fits: by a threshold, or by a classifier."""

# Control characters, line ends, byte order marks, lone surrogates: not every file can keep them.
_UNWRITABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_BREAKS: Final = re.compile("[\t\n\x0b\x0c\r\x85\u2028\u2029]+")
_SEPARATOR: Final = re.compile(r"(?<!\\)\|")
_COLOR: Final = re.compile("#[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Label:
    """A label for regions."""

    # Shown in tables. Spaces around name, synonyms and group are dropped, and letters with accents
    # are kept in one form (NFC).
    name: str
    synonyms: tuple[str, ...] = ()  # Other words for it; the word that fits a region best counts
    group: str = ""  # "animals", or empty
    color: str = ""  # ``#rrggbb``, stored in lower case, or empty

    def __post_init__(self) -> None:
        texts = {"name": self.name, "group": self.group, "color": self.color.lower()}
        for field, text in texts.items():
            object.__setattr__(self, field, composed(text).strip())
        synonyms = tuple(composed(word).strip() for word in self.synonyms)
        object.__setattr__(self, "synonyms", synonyms)
        if not self.name:
            raise InputError("A label is blank; remove it.")
        if not all(self.synonyms):
            raise InputError(f"A synonym of {self.name!r} is blank; remove it.")
        for text in (*self.words, self.group):
            if _UNWRITABLE.search(text) or without_hidden(text) != text:
                raise InputError(
                    f"{text!r} has a line end or another character that cannot be shown; remove it."
                )
        if len(set(self.words)) < len(self.words):
            twice = next(word for word in self.words if self.words.count(word) > 1)
            raise InputError(f"{twice!r} is written twice for the label {self.name!r}.")
        if self.color and not _COLOR.fullmatch(self.color):
            raise InputError(
                f"The colour {self.color!r} of {self.name!r} is not of the form #rrggbb, "
                "for example #ff8800."
            )

    @property
    def words(self) -> tuple[str, ...]:
        """The name and its synonyms."""
        return (self.name, *self.synonyms)


def clashes(labels: Sequence[Label]) -> Iterator[tuple[int, int, str]]:
    """Find words that stand for two labels."""
    owner: dict[str, int] = {}
    for place, label in enumerate(labels):
        for word in label.words:
            first = owner.setdefault(word, place)
            if first == place:
                continue
            earlier = labels[first].name
            if word == label.name == earlier:
                yield place, first, f"The label {word!r} appears twice"
            elif word in (label.name, earlier):
                other = earlier if word == label.name else label.name
                yield place, first, f"{word!r} is a label and also a synonym of {other!r}"
            else:
                yield place, first, f"{word!r} is a synonym of {earlier!r} and of {label.name!r}"


def split_words(cell: str) -> list[str]:
    r"""Split ``car | automobile`` at pipes; ``\|`` is a pipe, blank words are dropped.

    Tabs and line ends become spaces.
    """
    words = (one_line(word.replace(r"\|", "|")) for word in _SEPARATOR.split(cell))
    return [word for word in words if word]


def one_line(text: str) -> str:
    """Replace tabs and line ends by spaces, strip the text, and bring it to Unicode's form NFC."""
    return composed(_BREAKS.sub(" ", text)).strip()


def join_words(words: Sequence[str]) -> str:
    """Join words with pipes; `split_words` reads the same words back."""
    # A word that ends in a backslash is safe: there is a space before every separator.
    return " | ".join(word.replace("|", r"\|") for word in words)


def parse_text(text: str) -> list[Label]:
    """Read labels from text; see `Vocabulary.parse`."""
    synonyms: dict[str, dict[str, None]] = {}
    for name, *more in word_lists(text):
        synonyms.setdefault(name, {}).update(dict.fromkeys(more))
    labels = []
    for name, words in synonyms.items():
        words.pop(name, None)  # a label is no synonym of itself
        labels.append(Label(name, tuple(words)))
    return labels


def word_lists(text: str) -> Iterator[list[str]]:
    """Yield the words of each entry, the name first; repeated labels come again."""
    lines = re.split(r"\r\n|\r|\n", text.lstrip("\ufeff"))
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        # A double quote counts only at the start of an entry, so 5" is a label. Lines are read
        # one by one, so an unclosed quote does not swallow the next ones.
        try:
            (cells,) = csv.reader([line], skipinitialspace=True)
        except csv.Error as error:
            raise InputError(f"Line {number} of the labels cannot be read ({error}).") from None
        yield from filter(None, map(split_words, cells))


def to_text(labels: Iterable[str | Label]) -> str:
    """Write labels one per line; `Vocabulary.parse` reads the same labels back."""
    lines = []
    for label in labels:
        line = join_words((label,) if isinstance(label, str) else label.words)
        if "," in line or line[:1] in ('"', "#"):
            line = '"' + line.replace('"', '""') + '"'
        lines.append(line)
    return "\n".join(lines)


# -- prompt templates --------------------------------------------------------------------------

TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "photo": ("a photo of a {}.",),
    "aerial": ("an aerial photo of a {}.", "a satellite image of {}."),
    "microscopy": ("a microscopy image of a {}.", "a {} under the microscope."),
    "pathology": ("an H&E image of {}.", "a histopathology slide showing {}."),
    "species": ("a photo of {}.",),
    # Seven templates that do nearly as well as all eighty (CLIP's prompt engineering notebook).
    "ensemble": (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    ),
    "none": ("{}",),
}
# Nine of TCL, with which TIPSv2's authors measure: the ensemble, whose second one says "a" instead
# of "the", and two more.
TEMPLATES["nine"] = (
    "itap of a {}.",
    "a bad photo of a {}.",
    *TEMPLATES["ensemble"][2:],
    "a photo of many {}.",
    "a photo of {}s.",
)
"""Sets of templates by name: per kind of image, CLIP's ensemble of seven, and the bare label."""


def check_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """Check templates and return them as a tuple."""
    if not templates:
        raise InputError("There is no prompt template; use '{}' for the bare label.")
    for template in templates:
        if template.count("{}") != 1:
            raise InputError(
                f"The template {template!r} needs exactly one {{}} where the label goes."
            )
        if CONTROL.search(template):
            raise InputError(
                f"The template {template!r} has a character that cannot be shown; remove it."
            )
    return tuple(templates)


def choose_templates(names: Sequence[str]) -> tuple[str, ...]:
    """Return the templates of named sets and your own sentences, each once."""
    sentences: dict[str, None] = {}
    for text in names:
        if text not in TEMPLATES and "{}" not in text:
            raise InputError(
                f"Unknown template {text!r}; choose from {', '.join(TEMPLATES)}, "
                "or write a sentence with {} where the label goes."
            )
        sentences |= dict.fromkeys(TEMPLATES.get(text, (text,)))
    return check_templates(tuple(sentences))


# Multiples of irrational steps never coincide, and neighbours are far apart.
_HUE: Final = (5**0.5 - 1) / 2
_SATURATION: Final = 0.754878
_VALUE: Final = 0.569840

# Distinct with every common kind of colour blindness (Okabe and Ito, 2008), without black.
SAFE_COLORS: Final = (
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#f0e442",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)


def distinct_color(place: int) -> str:
    """Return the default colour ``#rrggbb`` of label number ``place`` (0, 1, ...)."""
    hue = (0.02 + place * _HUE) % 1
    # Saturated enough for a white background, bright enough for a black one.
    saturation = 0.95 - 0.5 * (place * _SATURATION % 1)
    value = 0.95 - 0.35 * (place * _VALUE % 1)
    rgb = colorsys.hsv_to_rgb(hue, saturation, value)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def colors_of(words: Sequence[str], chosen: Sequence[str]) -> dict[str, str]:
    """Return a colour for each word, in the palette that the user prefers."""
    first = SAFE_COLORS if load().palette == SAFE else ()
    filled = fill_colors([*chosen, *[""] * (len(words) - len(chosen))], first)
    return dict(zip(words, filled, strict=True))


def fill_colors(colors: Sequence[str], first: Sequence[str] = ()) -> tuple[str, ...]:
    """Fill in an unused colour for each label without one (""); the others stay.

    A label keeps its default when labels are added after it.
    """
    used = set(colors)
    filled = []
    step = 0
    for place, color in enumerate(colors):
        step = max(step, place)
        # Colours that labels have already, or that the user chose, are passed over.
        while not color:
            if step < len(first):
                candidate = first[step]
            else:
                candidate = distinct_color(step)
            step += 1
            if candidate not in used:
                used.add(candidate)
                color = candidate
        filled.append(color)
    return tuple(filled)
