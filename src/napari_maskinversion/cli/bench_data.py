"""The ``bench`` commands that compare methods, maps and masks on data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..base.errors import InputError
from ..bench.datasets.registry import DATASETS, DatasetSpec
from ..engine.methods.registry import MASKINVERSION
from ..engine.settings import InversionConfig
from .bench import (
    Alpha,
    Device,
    Into,
    Json,
    Markdown,
    Overwrite,
    Plots,
    Rate,
    SkipBad,
    Steps,
    bench,
    check_places,
    follow,
    show,
    subject_of_name,
)
from .console import say
from .loading import load
from .options import setting_option

if TYPE_CHECKING:
    from ..bench.datasets.protocol import Dataset
    from ..bench.measures.entries import Entry

__all__ = ["bench"]

Models = Annotated[str, typer.Option(help="Model names or folders, separated by commas.")]
Methods = Annotated[
    str,
    typer.Option(help="Methods separated by commas (see the command methods), or all."),
]
Weights = Annotated[Path | None, typer.Option(help="Checkpoint of AlphaCLIP.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder of the sets (default: NAPARI_MASKINVERSION_DATA).")
]
Limit = Annotated[int | None, typer.Option(help="Use only the first images, this many.")]
OwnResolution = Annotated[
    int | None,
    setting_option("resolution", "Side of the model's input in pixels (default: the method's)."),
]
WindowContext = Annotated[
    float | None,
    typer.Option(
        help="Show each region in a window this many times its box, not in the whole image."
    ),
]
On = Annotated[str, typer.Option(help=f"One of scenes, {', '.join(DATASETS)}.")]
Variants = Literal["methods", "maps", "masks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Options that all these commands have."""

    models: str
    steps: int
    learning_rate: float
    alpha: float
    resolution: int | None
    context: float | None
    limit: int | None
    skip_bad: bool
    device: str
    json: Path | None
    markdown: Path | None
    into: list[Path] | None
    plots: Path | None
    overwrite: bool

    @property
    def inversion(self) -> InversionConfig:
        """Settings of MaskInversion."""
        return InversionConfig(steps=self.steps, learning_rate=self.learning_rate, alpha=self.alpha)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models."""
        names = tuple(dict.fromkeys(n.strip() for n in self.models.split(",") if n.strip()))
        if not names:
            raise InputError("--models names no model; say --models demo.")
        return names

    def check(self, kind: str) -> None:
        """Raise for values that cannot work, before anything is loaded."""
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1; got {self.limit}.")
        if self.context is not None and not 1 <= self.context <= 100:
            raise InputError(f"--context must be from 1 to 100; got {self.context:g}.")
        _ = self.inversion, self.names
        check_places(None, self.json, self.markdown, self.into, kind)
        if self.plots is not None:
            from ..bench.reports.plots import check_plots

            check_plots(self.plots)


@bench.command("folder")
def folder_command(
    images: Annotated[Path, typer.Option(help="Folder of images.")],
    masks: Annotated[Path, typer.Option(help="Folder of label images of the same names.")],
    names: Annotated[
        Path,
        typer.Option(
            help="Text file with one class per line (pixels of value 1 are the first); or CSV: "
            "image, region, name."
        ),
    ],
    methods: Methods = "all",
    models: Models = "demo",
    template: Annotated[str, typer.Option(help="Prompt.")] = "a photo of a {}",
    method_weights: Weights = None,
    steps: Steps = 10,
    learning_rate: Rate = 0.1,
    alpha: Alpha = 0.0,
    resolution: OwnResolution = None,
    context: WindowContext = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    json: Json = None,
    markdown: Markdown = None,
    into: Into = None,
    plots: Plots = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure on your own images: which method and model names your regions best."""
    from ..bench.datasets.image_folder import ImageFolder

    options = _options(locals())
    options.check("folder")
    rows = _methods(methods, options, method_weights)
    _measure("folder", ImageFolder(images, masks, names, template=template), rows, options)


def _of_a_set(dataset: DatasetSpec) -> None:
    @bench.command(dataset.name, help=dataset.summary)
    def command(
        methods: Methods = "all",
        models: Models = "demo",
        data: Data = None,
        method_weights: Weights = None,
        steps: Steps = 10,
        learning_rate: Rate = 0.1,
        alpha: Alpha = 0.0,
        resolution: OwnResolution = None,
        context: WindowContext = None,
        limit: Limit = None,
        skip_bad: SkipBad = False,
        device: Device = "auto",
        json: Json = None,
        markdown: Markdown = None,
        into: Into = None,
        plots: Plots = None,
        overwrite: Overwrite = False,
    ) -> None:
        options = _options(locals())
        options.check(dataset.name)
        rows = _methods(methods, options, method_weights)
        _measure(dataset.name, dataset.open(data), rows, options)


for _dataset in DATASETS.values():
    _of_a_set(_dataset)


def _of_variants(kind: Variants, usual: str, summary: str) -> None:
    @bench.command(kind, help=summary)
    def command(
        on: On = "scenes",
        methods: Methods = usual,
        models: Models = "demo",
        data: Data = None,
        method_weights: Weights = None,
        scenes: Annotated[int, typer.Option(help="Scenes, where they are measured on.")] = 40,
        steps: Steps = 10,
        learning_rate: Rate = 0.1,
        alpha: Alpha = 0.0,
        resolution: OwnResolution = None,
        context: WindowContext = None,
        limit: Limit = None,
        skip_bad: SkipBad = False,
        device: Device = "auto",
        json: Json = None,
        markdown: Markdown = None,
        into: Into = None,
        plots: Plots = None,
        overwrite: Overwrite = False,
    ) -> None:
        options = _options(locals())
        options.check(kind)
        if scenes < 1:
            raise InputError(f"--scenes must be at least 1; got {scenes}.")
        if on not in ("scenes", *DATASETS):
            raise InputError(f"--on takes one of scenes, {', '.join(DATASETS)}; got {on!r}.")
        if kind == "maps" and methods != usual:
            raise InputError("bench maps compares maps of MaskInversion; leave --methods out.")
        rows = _methods(methods, options, method_weights)
        _variants(kind, on, data, scenes, rows, options)


_of_variants("methods", "all", "All methods on scenes of drawings, which the bundled model knows.")
_of_variants("maps", MASKINVERSION, "MaskInversion by each explainability map it can match.")
_of_variants("masks", MASKINVERSION, "Masks as they are, eroded, dilated, and their boxes.")


def _variants(
    kind: Variants,
    on: str,
    data: Path | None,
    scenes: int,
    rows: list[Entry],
    options: BenchOptions,
) -> None:
    from ..bench.datasets.drawn_scenes import DrawnScenes
    from ..bench.measures import entries

    real = None if on == "scenes" else DATASETS[on].open(data)
    subject = subject_of_name(options.names[0], options.device)
    dataset: Dataset = DrawnScenes(subject, scenes) if real is None else real
    if kind == "maps":
        rows = entries.maps(options.inversion, subject.model.num_layers)
    elif kind == "masks":
        rows = entries.masks(rows)
    _measure(kind, dataset, rows, options)


def _options(values: dict[str, Any]) -> BenchOptions:
    return BenchOptions(**{name: values[name] for name in BenchOptions.__dataclass_fields__})


def _methods(names: str, options: BenchOptions, weights: Path | None) -> list[Entry]:
    from ..bench.measures.entries import methods

    rows = methods(names, options.inversion, weights)
    if not rows:
        raise InputError("--methods names no method; say --methods all.")
    return rows


def _measure(kind: str, dataset: Dataset, rows: list[Entry], options: BenchOptions) -> None:
    from ..bench.measures.figures_file import write_figures
    from ..bench.measures.measuring import Measuring, MeasuringPlan, open_records
    from ..bench.reports.page import make_page

    plan = MeasuringPlan(
        models=options.names,
        entries=tuple(rows),
        resolution=options.resolution,
        context=options.context,
        limit=options.limit,
        skip_bad=options.skip_bad,
    )
    store = open_records(options.json, kind, plan, dataset, overwrite=options.overwrite)
    job = Measuring(dataset, plan, store, lambda name: load(name, None, options.device))
    try:
        follow(job.run, store.file, store.records)
    finally:
        for note in job.stale.lines():
            say(note)
        for why in job.skipped.values():
            say(f"Left out: {why}")
    page = make_page(kind, job)
    if options.json is not None:
        write_figures(page, options.json)
    show(page, options.markdown, options.into, options.plots)
