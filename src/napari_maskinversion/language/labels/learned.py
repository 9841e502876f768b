"""The head of a classifier's file: its words, and what may be told of it without torch."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, NonNegativeInt
from pydantic.dataclasses import dataclass  # one of the standard library would write `file`

from ...base.errors import InputError
from ...base.identity import file_sha256
from ...base.reading import check_file, check_version, of_development_version, parse_json, validated
from ...base.wording import counted, one_line

SUFFIX: Final = ".safetensors"
FORMAT: Final = "napari-maskinversion classifier"
VERSION: Final = 1
UNSAVED: Final = "unsaved"
"""The name of a classifier that no file holds."""
_TRAIN_AGAIN: Final = "train it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The classifier that ranks the words of a vocabulary, as results name it."""

    name: str  # Of the file
    sha256: str  # Of the file
    decisions: int  # It was trained on
    accuracy: float | None = None  # On regions that were held out; None: it could not be measured
    low: float | None = None  # 95 % interval
    high: float | None = None
    held_out: str = ""  # What was held out as a whole: "images" or "regions"
    calibrated: bool = True  # Whether its probabilities are
    # Of a classifier that no file holds, which a review learned from its decisions: the words that
    # were chosen (decisions may have brought more), and the classifier that ranked these. Then
    # `sha256` is that of its content.
    chosen: tuple[str, ...] = ()
    begun_as: Learned | None = None
    words: Annotated[tuple[str, ...], Field(exclude=True)] = field(default=(), compare=False)
    # Where it lies; no file says so
    file: Annotated[Path | None, Field(exclude=True)] = field(default=None, compare=False)

    @property
    def is_saved(self) -> bool:
        """Whether a file holds it, so that others can rank by it again."""
        return not self.chosen

    @property
    def text(self) -> str:
        """One line for the user."""
        if not self.is_saved:
            return f"Ranked by {counted(self.decisions, 'decision')} of a review, in no file"
        about = f"Classifier {self.name}: {self.decisions} decisions"
        if self.accuracy is None or self.low is None or self.high is None:
            return f"{about}, accuracy unknown"
        shares = (f"{100 * share:.0f}" for share in (self.accuracy, self.low, self.high))
        right, low, high = shares
        return f"{about}, {right} % right on {self.held_out} held out (95 %: {low} to {high} %)"


class _Scored(BaseModel):
    accuracy: float
    low: float
    high: float


class _Scores(BaseModel):
    all: _Scored
    over: str


class _Head(BaseModel):
    """What is read here of the record; `learning` checks the rest."""

    words: Annotated[list[Any], Field(min_length=1)]
    none: bool = False
    counts: dict[str, NonNegativeInt] = {}
    scores: _Scores | None = None


def read_head(path: Path) -> dict[str, Any]:
    """Read the record of a classifier's file; refuses other files, damaged and newer ones."""
    from safetensors import SafetensorError, safe_open

    check_file(path, "classifier")
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        reason = one_line(error)[:200].rstrip(".")
        raise InputError(f"{path} is damaged or no classifier ({reason}).") from None
    if about.get("format") != FORMAT:
        raise InputError(f"{path} holds no classifier of this plugin; 'library train' writes one.")
    number = about.get("version", "")
    version = None
    if number.isdecimal():
        version = int(number)
    check_version(version, VERSION, str(path), _TRAIN_AGAIN)
    record: dict[str, Any] = parse_json(about.get("record", "null").encode(), f"{path}, record")
    validated(_Head, record, path)
    if "features" not in record:
        raise of_development_version(str(path), _TRAIN_AGAIN)
    return record


def learned_of(path: Path, record: dict[str, Any]) -> Learned:
    """Return what results tell of a classifier."""
    scores = record.get("scores") or {}
    words = []
    for word in record["words"]:
        words.append(word.get("name", "") if isinstance(word, dict) else str(word))
    return validated(
        Learned,
        {
            "name": path.name,
            "sha256": file_sha256(path),
            "decisions": sum((record.get("counts") or {}).values()),
            **{name: scores.get("all", {}).get(name) for name in ("accuracy", "low", "high")},
            "held_out": scores.get("over", ""),
            "calibrated": bool(scores),
            "words": words,
            "file": path.absolute(),
        },
        path,
    )
