"""The paper's tables and curves: which rows they have, and what each row measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ...base.errors import InputError
from ...engine.methods.registry import Method
from ...engine.settings import InversionConfig
from ..measures.entries import Captions, Entry, MaskChange, Scorer
from . import quoted
from .quoted import Column, Quoted

OF_OTHERS: Final = "quoted there from others; its towers ({}) are not measured here"
UNPUBLISHED: Final = (
    "no weights of this size are published (AlphaCLIP has B/16 and L/14); a file of your own: "
    "--method-weights FILE"
)
METHODS: Final[Mapping[str, str]] = {
    "CLIP": "cls",
    "Crop": "crop",
    "Masked Crop": "masked-crop",
    "RedCircle": "red-circle",
    "AlphaCLIP": "alphaclip",
    "FGVP": "fgvp",
    "RIS": "ris",
    "MaskCLIP": "maskclip",
    "CLIPSurgery": "clip-surgery",
    "SCLIP": "sclip",
    "MaskInversion": "maskinversion",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table."""

    title: str
    backbone: str = "B/16"
    values: Mapping[Column, float] = field(default_factory=dict)  # The paper's figures by column
    method: str = "maskinversion"  # Name of the method; "" where nothing is measured
    # Settings of the inversion that differ from the data set's
    changes: Mapping[str, Any] = field(default_factory=dict)
    masks: MaskChange = "mask"  # As in `Entry`
    template: str = "{}"
    scorer: Scorer = "embeddings"
    relations: bool = False
    norm: Captions = "optimised"  # Length of an embedding from which a sentence is generated
    point: int | None = None  # The figure is that of this step of an inversion with `points`
    points: tuple[int, ...] = ()  # As in `Entry`
    lacks: str = ""  # Why nothing is measured

    def key(self, inversion: InversionConfig) -> str:
        """Return the name of its entry in the records; rows of several tables may share one."""
        parts = [self.method if self.scorer == "embeddings" else f"map-{self.scorer}"]
        changed = {k: v for k, v in self.changes.items() if getattr(inversion, k) != v}
        parts += [f"{name}={value}" for name, value in changed.items()]
        parts += [self.masks] if self.masks != "mask" else []
        parts += [self.template] if self.template != "{}" else []
        parts += ["relations"] if self.relations else []
        parts += ["curve"] if self.points else []
        return "/".join(parts)

    def entry(self, inversion: InversionConfig, weights: Path | None) -> Entry:
        """Return what is measured; ``inversion`` is the data set's."""
        needy = self.method == "alphaclip" and weights is None
        return Entry(
            key=self.key(inversion),
            title=self.title,
            method=Method(self.method, weights),
            inversion=replace(inversion, **self.changes),
            masks=self.masks,
            template=self.template,
            scorer=self.scorer,
            relations=self.relations,
            points=self.points,
            lacks=_needs(self.backbone) if needy else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or a curve of the paper."""

    name: str  # What users type
    title: str
    columns: tuple[Column, ...]  # Data set and metric
    rows: tuple[Row, ...]
    axis: str = ""  # Where rows are points of a curve: what their titles count
    note: str = ""  # What a reader has to know

    @property
    def sets(self) -> tuple[str, ...]:
        """Data sets that it needs."""
        names = (name for name, _ in self.columns)
        return tuple(dict.fromkeys(name for name in names if name in quoted.SETS))

    @property
    def file(self) -> str:
        """Begin of the names of its files."""
        return f"table-{self.name}" if self.name.isdigit() else self.name


def _needs(backbone: str) -> str:
    return UNPUBLISHED if backbone == "B/32" else "needs weights (--method-weights FILE)"


def _row(row: Quoted, **more: Any) -> Row:
    common: dict[str, Any] = {"title": row.title, "backbone": row.backbone, "values": row.values}
    if row.of_others:
        return Row(**common, method="", lacks=OF_OTHERS.format(row.backbone.replace("+", " + ")))
    return Row(**common, **{"method": METHODS.get(row.title, "maskinversion"), **more})


def _scorers() -> tuple[Row, ...]:
    """Ways to rank regions for a sentence that the paper quotes, by one tower alone."""
    photo, red = "a photo of {}", "{} is in red color."
    pictures: dict[str, Any] = {
        "backbone": "B/32",
        "method": "crop+box-blur",
        "template": photo,
    }
    return (
        Row(title="CPT (adapted)", backbone="B/32", method="shade", template=red),
        Row(title="GradCAM", backbone="B/32", scorer="gradcam", template=photo),
        Row(title="GradCAM (CheferCAM)", backbone="B/32", scorer="chefer", template=photo),
        Row(title="ReCLIP (proposals alone)", **pictures),
        Row(title="ReCLIP (with relations)", **pictures, relations=True),
    )


_POINTS: Final = tuple(int(row.title) for row in quoted.STEPS)
_SIDE_BY_SIDE: Final = (
    "The paper's text finds the mask for a sentence, the caption of its table the sentence for a "
    "mask; both are here, each beside the same figure of the paper. Rows without a figure of the "
    "paper rank regions as the methods that it quotes do, with one tower; relations are read by "
    "words, without a parser."
)
_TABLES: Final = (
    Table(
        name="1",
        title="Referring expressions",
        columns=quoted.EXPRESSIONS_COLUMNS,
        rows=(*map(_row, quoted.EXPRESSIONS), *_scorers()),
        note=_SIDE_BY_SIDE,
    ),
    Table(
        name="2",
        title="Class retrieval",
        columns=quoted.CLASSES_COLUMNS,
        rows=tuple(map(_row, quoted.CLASSES)),
    ),
    Table(
        name="3",
        title="Methods that need no training",
        columns=quoted.TRAINING_FREE_COLUMNS,
        rows=tuple(map(_row, quoted.TRAINING_FREE)),
        note="The mean is that of the seven data sets, for each reading of the sentences.",
    ),
    Table(
        name="4",
        title="Masks of different quality",
        columns=(("coco", "acc1"),),
        rows=tuple(_row(row, masks=row.title) for row in quoted.MASKS),
        note="Eroded and dilated by a tenth of a region's diameter; the paper names no amount.",
    ),
    Table(
        name="5",
        title="Seconds of an inversion, without and with decomposition",
        columns=quoted.SECONDS_COLUMNS,
        rows=tuple(_row(row) for row in quoted.SECONDS),
        axis="masks",
        note="Without decomposition the paper differentiates twice, and we use a closed form. "
        "The encoding of the image is not counted. The paper's machine is another.",
    ),
    Table(
        name="6",
        title="Captions generated from embeddings",
        columns=(("phrasecut", "acc1"),),
        rows=(
            *map(_row, quoted.CAPTIONS),
            Row(title="MaskInversion ([CLS] length)", backbone="B/32", norm="cls"),
        ),
        note="Share of generated captions whose own phrase is the nearest of the image's, by the "
        "text tower of a judge. The paper does not say how long its embeddings are: as "
        "optimised, or as the whole image's.",
    ),
    Table(
        name="alpha",
        title="Weight of the regulariser",
        columns=(("refcoco", "acc1"),),
        rows=tuple(_row(row, changes={"alpha": float(row.title)}) for row in quoted.ALPHA),
        axis="alpha",
    ),
    Table(
        name="steps",
        title="Steps of the inversion",
        columns=(("voc", "acc1"),),
        rows=tuple(
            _row(row, changes={"steps": _POINTS[-1]}, points=_POINTS, point=int(row.title))
            for row in quoted.STEPS
        ),
        axis="step",
        note="The paper draws this curve: steep to step 10, flat to step 100.",
    ),
    Table(
        name="maps",
        title="Explainability maps",
        columns=(("voc", "acc1"),),
        rows=tuple(_row(row, changes={"explainer": row.title}) for row in quoted.MAPS),
    ),
    Table(
        name="resolution",
        title="Seconds of an inversion of ten masks by the side of the input in pixels",
        columns=quoted.SECONDS_COLUMNS,
        rows=tuple(Row(title=str(side)) for side in quoted.SIDES),
        axis="px",
        note="The paper draws these seconds and prints none. The encoding is not counted.",
    ),
    Table(
        name="grid",
        title="Seconds of an inversion by masks and steps",
        columns=quoted.GRID_COLUMNS,
        rows=tuple(Row(title=str(masks)) for masks in quoted.GRID_MASKS),
        axis="masks",
        note="The paper draws such a grid and prints no figure. The encoding is not counted.",
    ),
)
TABLES: Final[Mapping[str, Table]] = MappingProxyType({table.name: table for table in _TABLES})
TIMED: Final = tuple(table.name for table in _TABLES if not table.sets)


def tables_by_name(names: str) -> tuple[Table, ...]:
    """Return tables by name, separated by commas; ``all`` is every table."""
    wanted = [name for name in (part.strip() for part in names.split(",")) if name]
    if wanted == ["all"]:
        return _TABLES
    unknown = [name for name in wanted if name not in TABLES]
    if unknown or not wanted:
        raise InputError(
            f"--table takes all, or some of {', '.join(TABLES)}, separated by commas; "
            f"got {unknown[0] if unknown else names!r}."
        )
    return tuple(TABLES[name] for name in dict.fromkeys(wanted))
