"""The paper's tables and curves of ``paper.yaml``: rows, what they measure, and their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ...base.errors import InputError
from ...engine.methods.registry import Method
from ...engine.settings import InversionConfig
from ..measures.entries import Captions, Entry, MaskChange, Scorer

Column = tuple[str, str]  # data set, or what is timed; metric
Figure = dict[str, float]  # ``value``, ``low``, ``high``
SETS: Final[dict[str, str]] = {
    "phrasecut": "PhraseCut",
    "refcoco": "RefCOCO",
    "refcoco+": "RefCOCO+",
    "voc": "VOC",
    "context": "Context",
    "coco": "COCO",
    "openimages": "OpenImagesV7",
}
WITH_SENTENCES: Final = ("phrasecut", "refcoco", "refcoco+")
MEAN: Final = "mean"  # of all data sets of a row
BACKBONES: Final = ("B/32", "B/16", "L/14", "H/14")
METRICS: Final = {
    "acc1": "Acc@1",
    "acc5": "Acc@5",
    "acc10": "Acc@10",
    "miou": "mIoU",
    "oiou": "oIoU",
    "direct": "without decomposition",
    "decomposed": "with decomposition",
}
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
OF_OTHERS: Final = "quoted there from others; its towers ({}) are not measured here"
UNPUBLISHED: Final = (
    "no weights of this size are published (AlphaCLIP has B/16 and L/14); a file of your own: "
    "--method-weights FILE"
)


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
        changed = {}
        for k, v in self.changes.items():
            if getattr(inversion, k) != v:
                changed[k] = v
        parts += [f"{name}={value}" for name, value in changed.items()]
        parts += [self.masks] if self.masks != "mask" else []
        parts += [self.template] if self.template != "{}" else []
        parts += ["relations"] if self.relations else []
        parts += ["curve"] if self.points else []
        return "/".join(parts)

    def entry(self, inversion: InversionConfig, weights: Path | None) -> Entry:
        """Return what is measured; ``inversion`` is the data set's."""
        lacks = ""
        if self.method == "alphaclip" and weights is None:
            needed = "needs weights (--method-weights FILE)"
            lacks = UNPUBLISHED if self.backbone == "B/32" else needed
        shared = ("title", "masks", "template", "scorer", "relations", "points")
        return Entry(
            key=self.key(inversion),
            method=Method(self.method, weights),
            inversion=inversion.changed(**self.changes),
            lacks=lacks,
            **{name: getattr(self, name) for name in shared},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or a curve of the paper; see ``paper.yaml``."""

    name: str  # What users type
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    axis: str = ""
    note: str = ""  # What a reader has to know

    @property
    def sets(self) -> tuple[str, ...]:
        """Data sets that it needs."""
        return tuple(dict.fromkeys(name for name, _ in self.columns if name in SETS))

    @property
    def file(self) -> str:
        """Begin of the names of its files."""
        if self.name.isdigit():
            return f"table-{self.name}"
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of a table."""

    table: str
    row: str
    backbone: str
    model: str
    data: str  # The column
    metric: str
    reading: str = ""  # "mask" or "sentence" where sentences and regions are compared, else ""
    paper: float | None = None  # As printed
    ours: Figure | None = None  # In the paper's unit
    count: int = 0  # Regions, sentences or repetitions
    note: str = ""  # Why there is no figure of ours, or only one of some images

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.ours is None or self.paper is None:
            return None
        return self.ours["value"] - self.paper


def _table(name: str, about: dict[str, Any]) -> Table:
    vary = about.pop("vary", "")
    own_rows = about.pop("own", [])
    columns = []
    for column, metrics in about.pop("columns").items():
        columns += [(column, metric) for metric in metrics.split()]
    lines = []
    for line in about.pop("rows").splitlines():
        lines.append([cell.strip() for cell in line.split("|")])
    points: tuple[int, ...] = ()
    if vary == "points":
        points = tuple(int(title) for title, *_ in lines)
    rows = []
    for title, backbone, figures in lines:
        pairs = zip(columns, figures.split(), strict=True)
        values = {}
        for column, figure in pairs:
            if figure != "-":
                values[column] = float(figure)
        more: dict[str, Any] = {"method": METHODS.get(title, "maskinversion")}
        if title.endswith("‡"):
            more = {"method": "", "lacks": OF_OTHERS.format(backbone.replace("+", " + "))}
        elif vary == "masks":
            more["masks"] = title
        elif vary == "points":
            more |= {"changes": {"steps": points[-1]}, "points": points, "point": int(title)}
        elif vary:
            more["changes"] = {vary: float(title) if vary == "alpha" else title}
        rows.append(Row(title=title, backbone=backbone, values=values, **more))
    rows += [Row(**row) for row in own_rows]
    return Table(name=name, columns=tuple(columns), rows=tuple(rows), **about)


def _read_tables() -> dict[str, Table]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files(__package__).joinpath("paper.yaml").read_text("utf-8")
    return {name: _table(name, about) for name, about in yaml.load(text, loader).items()}


TABLES: Final[Mapping[str, Table]] = MappingProxyType(_read_tables())


def tables_by_name(names: str) -> tuple[Table, ...]:
    """Return tables by name, separated by commas; ``all`` is every table."""
    if names.strip(" ,") == "all":
        return tuple(TABLES.values())
    return tuple(TABLES[name] for name in named(names, TABLES, "--table takes all, or some of"))


def named(text: str, choices: Iterable[str], takes: str) -> tuple[str, ...]:
    """Return names separated by commas, each once; refuse unknown ones."""
    names = list(filter(None, map(str.strip, text.split(","))))
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        raise InputError(
            f"{takes} {', '.join(choices)}, separated by commas; "
            f"got {unknown[0] if unknown else text!r}."
        )
    return tuple(dict.fromkeys(names))
