"""The ``bench`` commands that compare methods, maps and masks on data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...base.errors import InputError
from ...bench.datasets.registry import DATASETS, DatasetSpec
from ...engine.methods.registry import MASKINVERSION
from ...engine.settings import InversionConfig
from ..console import echo, say
from ..loading import load
from ..options import Paper, setting_option, with_option_groups, with_paper
from .scenes import (
    Alpha,
    Device,
    Output,
    Rate,
    SkipBad,
    Steps,
    bench,
    follow,
    subject_of_name,
)

if TYPE_CHECKING:
    from ...bench.datasets.base import Dataset
    from ...bench.measures.entries import Entry

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
Split = Annotated[
    str | None,
    typer.Option(help="Split of the set (default: its first; bench datasets lists them)."),
]
On = Annotated[str, typer.Option(help=f"One of scenes, {', '.join(DATASETS)}.")]
PROMPT = "a photo of a {}"  # the paper's
Variants = Literal["methods", "maps", "masks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Options that all these commands have."""

    steps: Steps = 10
    learning_rate: Rate = 0.1
    alpha: Alpha = 0.0
    resolution: Annotated[
        int | None,
        setting_option(
            "resolution", "Side of the model's input in pixels (default: the method's)."
        ),
    ] = None
    keep_aspect: Annotated[bool, setting_option("keep_aspect")] = True
    paper: Paper = False
    context: Annotated[
        float | None,
        typer.Option(
            help="Show each region in a window this many times its box; 0: in the whole image "
            "(default: the data set's)."
        ),
    ] = None
    limit: Annotated[
        int | None, typer.Option(help="Use only this many images, from the first.")
    ] = None
    skip_bad: SkipBad = False
    device: Device = "auto"
    output: Output

    @property
    def inversion(self) -> InversionConfig:
        """Settings of MaskInversion."""
        return InversionConfig(steps=self.steps, learning_rate=self.learning_rate, alpha=self.alpha)

    def check(self, kind: str, *inputs: Path | str | None) -> None:
        """Raise for values that cannot work, before anything is loaded."""
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1; got {self.limit}.")
        if self.context and not 1 <= self.context <= 100:
            raise InputError(f"--context must be 0, or from 1 to 100; got {self.context:g}.")
        _ = self.inversion
        self.output.check(kind, *inputs)


@bench.command("folder")
@with_paper(context=0.0, template=PROMPT)
@with_option_groups
def folder_command(
    *,
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
    template: Annotated[str, typer.Option(help="Prompt.")] = PROMPT,
    method_weights: Weights = None,
    options: BenchOptions,
) -> None:
    """Measure on your own images: which method and model names your regions best."""
    from ...bench.datasets.image_folder import ImageFolder

    options.check("folder", images, masks, names, method_weights, *models.split(","))
    model_names = _model_names(models)
    rows = _methods(methods, options, method_weights)
    dataset = ImageFolder(images, masks, names, template=template)
    _measure("folder", dataset, model_names, rows, options)


@bench.command("datasets")
def datasets_command(
    *,
    data: Data = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="SET=SPLIT, such as refcoco=testA: look for this split; may be repeated."
        ),
    ] = None,
) -> None:
    """List the data sets: origin, size, licence, what is in a folder and what is missing."""
    from ...bench.datasets.registry import existing_folder
    from ...bench.paper.choices import read_splits
    from ...demo_model.domains import data_folder

    splits = read_splits(split or [], tuple(DATASETS))
    folder = data or data_folder()
    if folder is not None:
        existing_folder(folder, "--data")
    for spec in DATASETS.values():
        for line in spec.describe(folder, splits.get(spec.name)):
            echo(line)
    if folder is None:
        say("Set NAPARI_MASKINVERSION_DATA, or --data, to a folder to see what it holds.")


def _of_a_set(dataset: DatasetSpec) -> None:
    @bench.command(dataset.name, help=dataset.summary)
    @with_paper(context=0.0)
    @with_option_groups
    def command(
        *,
        methods: Methods = "all",
        models: Models = "demo",
        data: Data = None,
        split: Split = None,
        method_weights: Weights = None,
        options: BenchOptions,
    ) -> None:
        dataset.check_split(split)
        options.check(dataset.name, data, method_weights, *models.split(","))
        names = _model_names(models)
        rows = _methods(methods, options, method_weights)
        _measure(dataset.name, dataset.open(data, split), names, rows, options)


for _dataset in DATASETS.values():
    _of_a_set(_dataset)


def _of_variants(kind: Variants, usual: str, summary: str) -> None:
    @bench.command(kind, help=summary)
    @with_paper(context=0.0)
    @with_option_groups
    def command(
        *,
        on: On = "scenes",
        methods: Methods = usual,
        models: Models = "demo",
        data: Data = None,
        method_weights: Weights = None,
        scenes: Annotated[int, typer.Option(help="Scenes, where they are measured on.")] = 40,
        options: BenchOptions,
    ) -> None:
        options.check(kind, data, method_weights, *models.split(","))
        names = _model_names(models)
        if scenes < 1:
            raise InputError(f"--scenes must be at least 1; got {scenes}.")
        if on not in ("scenes", *DATASETS):
            raise InputError(f"--on takes one of scenes, {', '.join(DATASETS)}; got {on!r}.")
        if kind == "maps" and methods != usual:
            raise InputError("bench maps compares maps of MaskInversion; leave --methods out.")
        rows = _methods(methods, options, method_weights)
        from ...bench.datasets.scenes import DrawnScenes
        from ...bench.measures import entries

        real = None if on == "scenes" else DATASETS[on].open(data)
        subject = subject_of_name(names[0], options.device)
        if kind == "maps":
            rows = entries.maps(options.inversion, subject.model.num_layers)
        elif kind == "masks":
            rows = entries.masks(rows)
        _measure(kind, real or DrawnScenes(subject, scenes), names, rows, options)


_of_variants("methods", "all", "All methods on scenes of drawings, which the bundled model knows.")
_of_variants("maps", MASKINVERSION, "MaskInversion by each explainability map it can match.")
_of_variants("masks", MASKINVERSION, "Masks as they are, eroded, dilated, and their boxes.")


def _model_names(models: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if not names:
        raise InputError("--models names no model; say --models demo.")
    return names


def _methods(names: str, options: BenchOptions, weights: Path | None) -> list[Entry]:
    from ...bench.measures.entries import methods

    rows = methods(names, options.inversion, weights)
    if not rows:
        raise InputError("--methods names no method; say --methods all.")
    return rows


def _measure(
    kind: str,
    dataset: Dataset,
    names: tuple[str, ...],
    rows: list[Entry],
    options: BenchOptions,
) -> None:
    from ...bench.measures.figures_file import write_figures
    from ...bench.measures.measuring import Measuring, MeasuringPlan, open_records

    plan = MeasuringPlan(
        models=names,
        entries=tuple(rows),
        resolution=options.resolution,
        keep_aspect=options.keep_aspect,
        pictures_native=options.paper,
        context=options.context,
        limit=options.limit,
        skip_bad=options.skip_bad,
    )
    output = options.output
    store = open_records(output.json, kind, plan, dataset, overwrite=output.overwrite)
    job = Measuring(dataset, plan, store, lambda name: load(name, None, options.device))
    try:
        follow(job.run, store.file, store.records)
    finally:
        for line in (*job.notes(), *(f"Left out: {why}" for why in job.skipped.values())):
            say(line)
    page = job.page(kind)
    if output.json is not None:
        write_figures(page, output.json)
    output.show(page)
