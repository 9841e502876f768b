"""Measure what the tables need: a job for each model and data set, and for each model's seconds.

Every record is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import MaskInversionError
from ...engine.invert.inverter import MaskInverter
from ...engine.models.registry import own_model
from ...engine.settings import InversionConfig
from ..measures.entries import SAM, Entry
from ..measures.figures_file import FiguresFile, RecordStore, Report
from ..measures.measuring import Captioner, Measuring, MeasuringPlan, open_records, segmenters
from ..measures.relations import Parser, by_words
from .choices import Backbones, PaperSets, inversion_of, parts_of
from .tables import Column, Row, Table

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ..datasets.dataset import Dataset

Route = Literal["direct", "decomposed"]
PAPER_SIDE: Final = 448  # pixels
TIMES: Final = 3
_SHAPE: Final = (480, 640)
_TABLE_SIDE: Final = 224  # pixels of the paper's table of seconds, which names none
_MASKS: Final = 10  # of the curve over resolutions


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPlan:
    """What to measure, and how."""

    tables: tuple[Table, ...]
    backbones: Backbones
    sets: PaperSets
    # Alpha is that of each data set
    inversion: InversionConfig = field(default_factory=InversionConfig)
    # Pixels of the input of methods that use tokens of the whole image
    resolution: int = PAPER_SIDE
    weights: Path | None = None  # Checkpoints of AlphaCLIP and of Segment Anything
    sam: Path | None = None
    # Why captions are not measured; "" if there is a captioner
    captions: str = "needs a generator of captions (--decoder clipcap-coco)"
    limit: int | None = None  # Number of images of each set, from the first
    skip_bad: bool = False  # Continue after an image that cannot be used
    parser: Parser = by_words  # Reads relations in sentences

    def entry(self, table: Table, row: Row, name: str) -> Entry:
        """Return what a row measures on a data set."""
        entry = row.entry(inversion_of(name, self.inversion), self.weights)
        if table.name != "6":
            return entry
        key = f"{entry.key}/captions={row.norm}"
        lacks = entry.lacks or self.captions
        return replace(entry, key=key, captions=row.norm, lacks=lacks)

    def entries(self, name: str, model: str) -> tuple[Entry, ...]:
        """Return everything that a model measures on a data set, each once."""
        every = []
        for table in self.tables:
            if name in table.sets:
                for row in table.rows:
                    if row.method and self.backbones.models.get(row.backbone) == model:
                        every.append(self.entry(table, row, name))
        return tuple({entry.key: entry for entry in every if not entry.lacks}.values())

    def measuring(self, models: Sequence[str], entries: Sequence[Entry]) -> MeasuringPlan:
        """Return the plan of these entries on any data set."""
        more = {}
        for name in ("resolution", "limit", "skip_bad", "sam"):
            more[name] = getattr(self, name)
        return MeasuringPlan.as_in_paper(models, entries, lenient=True, **more)

    def timed(self, model: str) -> list[TimedPart]:
        """Return everything to time with a model, each once."""
        parts = []
        for table in self.tables:
            if not table.sets:
                for row in table.rows:
                    if self.backbones.models.get(row.backbone) == model:
                        for column in table.columns:
                            parts.append(part_of(table, row.title, column))
        return list(dict.fromkeys(parts))


class PaperBench:
    """Measures a plan and keeps each record, so that it can be stopped and run again."""

    def __init__(
        self,
        plan: PaperPlan,
        folder: Path,
        load: Callable[[str], Backbone],
        *,
        captioner: Captioner | None = None,
        device: str = "auto",
        overwrite: bool = False,
    ) -> None:
        self.plan = plan
        self.failures: dict[tuple[str, str], str] = {}
        self.lacks: dict[tuple[str, str, str], str] = {}
        self.skipped: dict[str, dict[str, str]] = {name: {} for name in plan.sets.opened}
        self.notes: list[str] = []
        self._load = load
        self._captioner = captioner
        self._model: tuple[str, Backbone] | None = None
        self._timed: dict[tuple[str, TimedPart], str] = {}
        self._segmenter = segmenters(plan.sam)
        self._open(device)
        self.stores: dict[str, RecordStore] = {}
        for name, dataset in plan.sets.opened.items():
            file = records_file(folder, dataset)
            first = Entry(key="", title="", inversion=inversion_of(name, plan.inversion))
            common = plan.measuring((), (first,))
            self.stores[name] = open_records(file, "paper", common, dataset, overwrite=overwrite)
        self.seconds: FiguresFile | None = None
        if any(not table.sets for table in plan.tables):
            settings = {"steps": plan.inversion.steps}
            file = folder / "records" / "seconds.json"
            self.seconds = FiguresFile(file, "paper-seconds", settings, overwrite=overwrite)

    def _open(self, device: str) -> None:
        """Load what only some rows need, before anything is measured."""
        from ...engine.compute.devices import choose_device

        for model in reversed(self.plan.backbones.names):  # the first one stays loaded
            rows: list[Entry] = []
            for name in self.plan.sets.opened:
                rows.extend(self.plan.entries(name, model))
            if rows and own_model(parts_of(model)[0]) is not None:
                self.load(model)  # a file of the user's may be anything
            if self.plan.weights is not None and any(e.method.name == "alphaclip" for e in rows):
                from ...engine.methods.alphaclip import read_branch

                read_branch(self.plan.weights)
            if self._captioner is not None and any(entry.captions for entry in rows):
                self._captioner.open(self.load(model))
            if self.plan.sam is not None and any(entry.masks == SAM for entry in rows):
                self._segmenter(str(choose_device(device)))

    def __len__(self) -> int:
        """Return the number of kept records."""
        timed = 0 if self.seconds is None else len(self.seconds.parts)
        return timed + sum(len(store.records) for store in self.stores.values())

    def keys(self, name: str) -> list[str]:
        """Return the images of a data set that are measured."""
        keys = list(self.plan.sets.opened[name].keys())[: self.plan.limit]
        return [key for key in keys if key not in self.skipped[name]]

    def run(self, report: Report = lambda *_: None) -> None:
        """Measure what is missing; ``report`` receives the present work and the share done.

        What fails is left to `failures`; the other work goes on.
        """
        jobs = self._jobs()
        total = sum(weight for *_, weight in jobs) or 1
        done = 0
        for name, model, entries, weight in jobs:

            def tell(text: str, share: float, done: int = done, weight: int = weight) -> None:
                report(text, min(1.0, (done + share * weight) / total))

            try:
                if name:
                    self._measure(name, model, entries, tell)
                else:
                    self._time(model, tell)
            except MaskInversionError as error:
                self.failures[name, model] = str(error)
            done += weight
        report("done", 1.0)

    def _jobs(self) -> list[tuple[str, str, tuple[Entry, ...], int]]:
        """Return (data set, model, entries, weight); a model's together, to load it once."""
        jobs: list[tuple[str, str, tuple[Entry, ...], int]] = []
        for model in self.plan.backbones.names:
            for name in self.plan.sets.opened:
                entries = self.plan.entries(name, model)
                if entries:
                    jobs.append((name, model, entries, len(entries) * len(self.keys(name))))
            if parts := self.plan.timed(model):
                jobs.append(("", model, (), len(parts)))
        return jobs

    def _measure(self, name: str, model: str, entries: tuple[Entry, ...], tell: Report) -> None:
        dataset = self.plan.sets.opened[name]
        job = Measuring(
            dataset,
            self.plan.measuring((model,), entries),
            self.stores[name],
            self.load,
            captioner=self._captioner,
            parser=self.plan.parser,
            segmenter=self._segmenter,
        )
        job.skipped = self.skipped[name]
        try:
            job.run(lambda text, share: tell(f"{dataset.name}: {text}", share))
        except MaskInversionError:
            if len(job.lacks) < len(entries):
                raise
        finally:
            self.notes += job.notes()
            self.lacks |= {(name, model, key): why for (_, key), why in job.lacks.items()}

    def _time(self, name: str, tell: Report) -> None:
        assert self.seconds is not None
        model = self.load(name)
        parts = self.plan.timed(name)
        for number, part in enumerate(parts):
            tell(f"{name}, {part.about}", number / len(parts))
            self._timed[name, part] = part.key(model)
            self.seconds.part(
                part.key(model),
                lambda part=part: time_part(model, part, self.plan.inversion),  # type: ignore[misc]
            )

    def load(self, name: str) -> Backbone:
        """Load a model; the last one is kept."""
        if self._model is None or self._model[0] != name:
            self._model = None  # frees its memory before the next one is loaded
            self._model = (name, self._load(name))
        return self._model[1]

    def seconds_of(self, model: str, part: TimedPart) -> dict[str, Any] | None:
        """Return the seconds of a part by this model's weights on this device, once measured."""
        key = self._timed.get((model, part))
        if key is None or self.seconds is None:
            return None
        return self.seconds.parts.get(key)

    def records(self, name: str, model: str, key: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the records of an entry on a data set, with their images."""
        kept: Mapping[Any, dict[str, Any]] = self.stores[name].records
        places = ((image, (model, key, image)) for image in self.keys(name))
        return [(image, kept[place]) for image, place in places if place in kept]


def records_file(folder: Path, dataset: Dataset) -> Path:
    """Return the file of which the records of a data set are kept next to."""
    return folder / "records" / f"{dataset.name.replace(' ', '-')}.json"


@dataclass(frozen=True, slots=True)
class TimedPart:
    """One inversion to time."""

    masks: int
    side: int  # pixels of the model's input
    route: Route
    steps: int | None = None  # None takes those of the inversion

    @property
    def about(self) -> str:
        """Description for progress."""
        steps = "" if self.steps is None else f", K = {self.steps}"
        return f"{self.masks} masks at {self.side} px, {self.route}{steps}"

    def key(self, model: Backbone) -> str:
        """Return its name in the records, with model and device."""
        return f"{model.name} {model.fingerprint} on {model.device.type}: {self.about}"


def part_of(table: Table, title: str, column: Column) -> TimedPart:
    """Return what a cell of a table of seconds measures."""
    size = column[0]
    route = cast("Route", column[1])
    if table.name == "resolution":
        return TimedPart(_MASKS, int(title), route)
    steps = None
    if table.name == "grid":
        steps = int(size.removeprefix("K = "))
    return TimedPart(int(title), _TABLE_SIDE, route, steps)


def time_part(model: Backbone, part: TimedPart, inversion: InversionConfig) -> dict[str, Any]:
    """Invert masks of a random image several times.

    A model of another native resolution than 224 px is timed at a side in proportion.
    """
    side = model.nearest_side(part.side * model.native_resolution / _TABLE_SIDE)
    image, masks = _scene(part.masks)
    steps = inversion.steps if part.steps is None else part.steps
    config = inversion.changed(route=part.route, alpha=0.0, steps=steps)
    inverter = MaskInverter(model)
    encoded = []
    inverted = []
    route = ""
    for number in range(TIMES + 1):  # the first is not counted: it prepares weights
        began = perf_counter()
        inverter.set_image(image, resolution=side, keep_aspect=False)
        between = perf_counter()
        route = inverter.invert(masks, config).route
        if number:
            encoded.append(between - began)
            inverted.append(perf_counter() - between)
    return {
        "value": median(inverted),
        "low": min(inverted),
        "high": max(inverted),
        "encoding": median(encoded),
        "route": route,
        "side": side,
    }


def _scene(count: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    rng = np.random.default_rng(0)
    masks = np.zeros((count, *_SHAPE), bool)
    for mask in masks:
        height, width = rng.integers(40, 200, 2)
        y = rng.integers(0, _SHAPE[0] - height)
        x = rng.integers(0, _SHAPE[1] - width)
        mask[y : y + height, x : x + width] = True
    return rng.integers(0, 255, (*_SHAPE, 3)).astype(np.uint8), masks
