"""The columns of the results table: the one list that files, panel and command line read.

To add a column, add a `ColumnSpec` to `COLUMNS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal

from ..base.validation import encodable
from ..regions.annotations.json_files import to_json_types
from ..regions.measures import explanation
from .region_result import PhysicalSize, RegionResult, equivalent_diameter, physical_size
from .run_info import RunInfo

Place = Literal["files", "panel", "menu", "terminal", "layer"]
Kind = Literal["text", "status", "integer", "number", "share"]
Rows = Sequence[RegionResult]

CONFIDENCE: Final = (
    "How the model divides 100 % among the words of the list; it says nothing about words that are "
    "not in it. Calibrated where a classifier ranks them"
)
RANKED_LABELS: Final = 5  # labels of a region that the table lists
# What files call other things, besides `COLUMNS`.
_WRITTEN: Final = (
    *("label", "score", "geometry", "geom", "fid", "image", "plane", "norm", "embedding"),
    *("attributes", "decision", "accepted_label", "decided_at"),
    *("name", "objecttype", "position", "classification", "measurements", "metadata"),
)
_FITS: Final = {True: "fits", False: "does not fit", None: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """One column of the results table."""

    name: str  # Name in data frames and files. Users' scripts depend on it: never rename a column.
    title: str = ""  # Title for people; by default its name with blanks
    explanation: str  # One sentence for tooltips and lists of columns
    # Returns the cell of a region; None or NaN if it is empty
    value: Callable[[RegionResult, RunInfo], Any]
    header: str = ""  # Short title for a narrow column
    unit: str = ""  # Unit of the values; "image unit" is the unit of the pixel size
    # A status is "summary: details"; a share, 0 to 1, is shown to people in percent
    kind: Kind = "number"
    digits: int = 3  # Decimals shown to people; files keep every digit
    # Where the column appears: "files" (data frame, CSV, Parquet, attributes of annotations),
    # "panel", "menu" (can be added to the panel's), "terminal" (printed table), "layer" (features
    # of the regions' layer). Files have all columns, the others a selection.
    places: tuple[Place, ...] = ("files",)
    optional: bool = False  # A run without any value has no such column

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))

    @property
    def short_title(self) -> str:
        """The header, or the capitalised title."""
        return self.header or self.title[:1].upper() + self.title[1:]

    def text(self, value: Any, *, digits: int | None = None, missing: str = "") -> str:
        """Return a cell as text for people; ``missing`` replaces None and NaN."""
        if is_missing(value):
            return missing
        if self.kind == "share":
            return f"{100 * float(value):.0f} %"
        if self.kind == "number":
            return f"{float(value):.{self.digits if digits is None else digits}f}"
        return str(value)


ColumnFamily = Callable[[RunInfo, Rows], Iterable[ColumnSpec]]
"""Columns whose number depends on the run: ranked labels, captions, axes."""


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None or NaN."""
    return value is None or bool(value != value)


def columns_of(info: RunInfo, regions: Rows, place: Place = "files") -> list[ColumnSpec]:
    """Return the columns of a run in one place, in order."""
    columns: list[ColumnSpec] = []
    for entry in COLUMNS:
        family = [entry] if isinstance(entry, ColumnSpec) else entry(info, regions)
        for column in family:
            if place in column.places and not _is_left_out(column, info, regions):
                columns.append(column)
    return columns


def _is_left_out(column: ColumnSpec, info: RunInfo, regions: Rows) -> bool:
    """Return whether an optional column has no value for any region."""
    if not column.optional:
        return False
    return all(column.value(region, info) in (None, "") for region in regions)


def columns_of_any(axes: Sequence[str] = ("t", "z")) -> list[ColumnSpec]:
    """Return the columns that files of any run may have, but for captions and other axes."""
    single = []
    for c in COLUMNS:
        if isinstance(c, ColumnSpec) and "files" in c.places:
            single.append(c)
    return [*single, *_ranked_labels(RANKED_LABELS), *map(_axis, axes)]


def columns_in(place: Place) -> list[ColumnSpec]:
    """Return the columns that one place has for every run, without families."""
    return [c for c in COLUMNS if isinstance(c, ColumnSpec) and place in c.places]


def _ranked(name: str, rank: int = 0) -> Callable[[RegionResult, RunInfo], Any]:
    """Return a function that reads ``Ranking.<name>[rank]`` as a number; NaN without ranking."""

    def value(region: RegionResult, info: RunInfo) -> float:
        ranking = region.ranking
        if ranking is None:
            return math.nan
        return float(getattr(ranking, name)[rank])

    return value


def _label(rank: int) -> Callable[[RegionResult, RunInfo], Any]:
    def value(region: RegionResult, info: RunInfo) -> str | None:
        if region.ranking is None:
            return None
        return region.ranking.labels[rank]

    return value


def _classifier(region: RegionResult, info: RunInfo) -> str:
    if info.vocabulary is None:
        learned = None
    else:
        learned = info.vocabulary.learned
    if learned is None:
        return ""
    return learned.name


def _changed_by_decisions(region: RegionResult, info: RunInfo) -> str:
    return "" if region.ranking is None else region.ranking.changed_from


def _word(region: RegionResult, info: RunInfo) -> str:
    if region.ranking is None:
        return ""
    if region.uncertainty.sure:
        return "sure"
    return "doubtful"


def _next_labels(region: RegionResult, info: RunInfo) -> str:
    """Return the two best labels that are not the suggestion."""
    if region.ranking is None:
        return ""
    first = int(region.ranking.labels[0] == region.suggestion)
    return ", ".join(region.ranking.labels[first : first + 2])


def _ranked_labels(count: int) -> Iterator[ColumnSpec]:
    for rank in range(count):
        # Below the threshold the suggestion is "none of these"; the nearest label is listed too.
        yield ColumnSpec(
            name=f"label_{rank + 1}",
            explanation=f"Label number {rank + 1} by similarity, also below the threshold",
            kind="text",
            value=_label(rank),
        )
        if rank:
            yield ColumnSpec(
                name=f"similarity_{rank + 1}",
                explanation=f"Cosine similarity of the region and label {rank + 1}",
                value=_ranked("similarities", rank),
            )


def source_columns(info: RunInfo, regions: Rows) -> dict[str, str]:
    """Return the column of each attribute that regions bring from their file.

    One of a name that is taken, in letters of any size, has ``source_`` before it.
    """
    brought: dict[str, None] = {}  # in the order in which regions have them
    for region in regions:
        brought |= dict.fromkeys(region.source_values)
    taken = {*_WRITTEN}
    if brought:
        columns_of_run = (
            columns_of_any(info.axes),
            _measures(info, regions),
            _caption_columns(info, regions),
        )
        taken |= {column.name for column in chain(*columns_of_run)}
    columns = {}
    for name in brought:
        column = str(encodable(name))
        # In letters of any size: spreadsheets and databases do not tell them apart.
        while column.lower() in taken:
            column = f"source_{column}"
        taken.add(column.lower())
        columns[name] = column
    return columns


def _source_columns(info: RunInfo, regions: Rows) -> Iterator[ColumnSpec]:
    for name, column in source_columns(info, regions).items():
        values = [region.source_values.get(name) for region in regions]
        kinds = {type(value) for value in values if value is not None}
        whole = kinds == {int} and max(map(abs, filter(None, values)), default=0) < 2**63
        kind: Kind = "text"
        if whole:
            kind = "integer"
        elif kinds in ({float}, {int, float}):
            kind = "number"
        plain = kinds == {bool} or kind != "text"

        def cell(region: RegionResult, info: RunInfo, name: str = name, plain: bool = plain) -> Any:
            value = region.source_values.get(name)
            if plain or value is None or isinstance(value, str):
                return value
            return json.dumps(to_json_types(value), ensure_ascii=False)

        yield ColumnSpec(
            name=column,
            explanation="Attribute of the region in the file that it came from",
            kind=kind,
            value=cell,
        )


def _measure(name: str, region: RegionResult, info: RunInfo) -> float | None:
    return region.measures.get(name)


def _measures(info: RunInfo, regions: Rows) -> Iterator[ColumnSpec]:
    names: dict[str, None] = {}  # in their order
    for region in regions:
        names |= dict.fromkeys(region.measures)
    for name in names:
        yield ColumnSpec(
            name=name,
            explanation=explanation(name),
            unit="px" if name.startswith("axis") else "",
            value=partial(_measure, name),
        )


def _caption_columns(info: RunInfo, regions: Rows) -> Iterator[ColumnSpec]:
    use = info.captions
    for rank in range(0 if use is None else min(use.top, use.bank.count)):
        number = ""
        if rank:
            number = f"_{rank + 1}"
        places: tuple[Place, ...]
        if rank:
            places = ("files",)
        else:
            places = ("files", "terminal")

        def text(region: RegionResult, info: RunInfo, rank: int = rank) -> str | None:
            if region.captions is None:
                return None
            return region.captions.captions[rank]

        def similarity(region: RegionResult, info: RunInfo, rank: int = rank) -> float:
            captions = region.captions
            if captions is None:
                return math.nan
            return float(captions.similarities[rank])

        yield ColumnSpec(
            name=f"caption{number}",
            explanation=f"Caption number {rank + 1} of the bank, by similarity",
            kind="text",
            value=text,
            places=places,
        )
        yield ColumnSpec(
            name=f"caption_similarity{number}",
            explanation="Cosine similarity of the region and this caption",
            value=similarity,
            places=places,
        )


def _axis(name: str) -> ColumnSpec:
    return ColumnSpec(
        name=name,
        explanation=f"Index of the region's plane on axis {name}",
        kind="integer",
        value=lambda region, info: dict(region.position).get(name),
    )


def _physical(
    read: Callable[[PhysicalSize], float | str],
) -> Callable[[RegionResult, RunInfo], Any]:
    def value(region: RegionResult, info: RunInfo) -> float | str | None:
        size = physical_size(region, info.units)
        if size is None:
            return None
        return read(size)

    return value


def _world(axis: int) -> Callable[[RegionResult, RunInfo], Any]:
    def value(region: RegionResult, info: RunInfo) -> float | None:
        geo = None if info.units is None else info.units.geo
        if geo is None:
            return None
        return geo.world(*region.centroid)[axis]

    return value


COLUMNS: list[ColumnSpec | ColumnFamily] = [
    ColumnSpec(
        name="region",
        header="#",
        explanation="Label value of the region, or row of the shape",
        kind="integer",
        value=lambda region, info: region.id,
        places=("files", "panel", "terminal"),
    ),
    ColumnSpec(
        name="suggestion",
        explanation="The best word",
        kind="text",
        value=lambda region, info: region.suggestion,
        places=("files", "panel", "terminal", "layer"),
    ),
    ColumnSpec(
        name="similarity",
        header="Sim.",
        explanation="Cosine similarity of the region and the word",
        value=_ranked("similarities"),
        places=("files", "menu", "terminal", "layer"),
    ),
    ColumnSpec(
        name="probability",
        title="confidence",
        header="Conf.",
        explanation=CONFIDENCE,
        kind="share",
        value=_ranked("probabilities"),
        places=("files", "panel", "layer"),
    ),
    ColumnSpec(
        name="margin",
        explanation="Similarity of the word minus that of the best other one; "
        "below 0 if you picked another word",
        value=lambda region, info: region.margin,
        places=("files", "menu", "terminal"),
    ),
    ColumnSpec(
        name="classifier",
        explanation="File of the classifier that ranked the words; similarities are then cosines "
        "plus what it learned. Unsaved: the review learned it from its decisions, and no file "
        "holds it",
        kind="text",
        value=_classifier,
        optional=True,
    ),
    ColumnSpec(
        name="changed_by_decisions",
        title="changed from",
        header="Was",
        explanation="What was suggested before the review learned from its decisions, where these "
        "have changed it",
        kind="text",
        value=_changed_by_decisions,
        places=("files", "menu", "terminal"),
        optional=True,
    ),
    ColumnSpec(
        name="iou",
        title="heatmap IoU",
        header="IoU",
        explanation="Overlap of the mask and the heatmap above 0.5: "
        "how well the embedding fits this region",
        digits=2,
        value=lambda region, info: region.iou,
        places=("files", "menu", "terminal", "layer"),
    ),
    ColumnSpec(
        name="area_px",
        title="area",
        explanation="Covered pixels",
        unit="px",
        digits=0,
        value=lambda region, info: region.area,
        places=("files", "menu"),
    ),
    ColumnSpec(
        name="source_label",
        title="name in the file",
        header="In file",
        explanation="Name of the region in the file that it came from",
        kind="text",
        value=lambda region, info: region.source_label,
        places=("files", "menu", "terminal"),
        optional=True,
    ),
    ColumnSpec(
        name="source_id",
        title="id in the file",
        explanation="Id of the region in the file that it came from",
        kind="text",
        value=lambda region, info: region.source_id,
        optional=True,
    ),
    _source_columns,
    ColumnSpec(
        name="next_labels",
        title="then",
        explanation="The next best words",
        kind="text",
        value=_next_labels,
        places=("terminal",),
    ),
    ColumnSpec(
        name="status",
        explanation="ok: sure and fits; doubtful: the word; does not fit: the heatmap; low "
        "resolution: smaller than one token; empty without words",
        kind="status",
        value=lambda region, info: region.status,
        places=("files", "panel", "terminal", "layer"),
    ),
    ColumnSpec(
        name="word",
        explanation="sure or doubtful; the status says why",
        kind="text",
        value=_word,
    ),
    ColumnSpec(
        name="fit",
        explanation="Whether the heatmap fits the region: fits, does not fit; empty where the "
        "model's limit is not calibrated",
        kind="text",
        value=lambda region, info: _FITS[region.uncertainty.fits],
    ),
    ColumnSpec(
        name="entropy",
        explanation="Entropy of the label probabilities",
        unit="nats",
        value=lambda region, info: region.entropy,
    ),
    lambda info, regions: _ranked_labels(
        min(RANKED_LABELS, 0 if info.vocabulary is None else len(info.vocabulary.labels))
    ),
    ColumnSpec(
        name="generated_caption",
        explanation="Sentence that a decoder wrote from the region's embedding",
        kind="text",
        value=lambda region, info: region.generated_caption,
        places=("files", "menu", "terminal"),
        optional=True,
    ),
    _caption_columns,
    lambda info, regions: map(_axis, info.axes),
    ColumnSpec(
        name="diameter_px",
        title="diameter",
        explanation="Diameter of the circle of the same area",
        unit="px",
        digits=1,
        value=lambda region, info: equivalent_diameter(region.area),
    ),
    _measures,
    ColumnSpec(
        name="height_px",
        title="height",
        explanation="Height of the bounding box",
        unit="px",
        kind="integer",
        value=lambda region, info: region.bbox[2] - region.bbox[0],
    ),
    ColumnSpec(
        name="width_px",
        title="width",
        explanation="Width of the bounding box",
        unit="px",
        kind="integer",
        value=lambda region, info: region.bbox[3] - region.bbox[1],
    ),
    *(
        ColumnSpec(
            name=name,
            explanation=explanation,
            unit="image unit, squared" if name == "area" else "image unit",
            value=_physical(attrgetter(name)),
            optional=True,
        )
        for name, explanation in (
            ("area", "Covered area"),
            ("diameter", "Diameter of the circle of the same area"),
            ("height", "Height of the bounding box"),
            ("width", "Width of the bounding box"),
        )
    ),
    ColumnSpec(
        name="unit",
        explanation="The image unit of area, diameter, height and width",
        kind="text",
        value=_physical(lambda size: size.unit),
        optional=True,
    ),
    *(
        ColumnSpec(
            name=f"world_{axis}",
            explanation=f"{axis} of the centroid in the image's reference system",
            unit="of the reference system",
            value=_world(index),
            optional=True,
        )
        for index, axis in enumerate("xy")
    ),
    ColumnSpec(
        name="merged",
        title="merged from",
        explanation="Ids of the regions that were merged into this one",
        kind="text",
        value=lambda region, info: " ".join(map(str, region.members)),
        optional=True,
    ),
]
