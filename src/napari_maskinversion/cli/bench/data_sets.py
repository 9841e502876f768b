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
from ...results.settings import RunSettings
from ..console import echo, say
from ..options import Paper, setting_option, with_option_groups, with_paper
from ..run_options import load
from .shared import Alpha, Device, Output, Rate, SkipBad, Steps, bench, follow, load_measured

if TYPE_CHECKING:
    from ...bench.datasets.dataset import Dataset
    from ...bench.measures.entries import Entry
    from ...bench.measures.measuring import Measuring

Weights = Annotated[Path | None, typer.Option(help="Checkpoint of AlphaCLIP.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder of the sets (default: NAPARI_MASKINVERSION_DATA).")
]
PROMPT = "a photo of a {}"  # the paper's
Variants = Literal["methods", "maps", "masks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Options that all these commands have."""

    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods separated by commas (see the command methods), or all (default: all; "
            "for masks MaskInversion)."
        ),
    ] = None
    models: Annotated[str, typer.Option(help="Model names or folders, separated by commas.")] = (
        "demo"
    )
    method_weights: Weights = None
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
            min=0,
            max=100,
            help="Show each region in a window this many times its box; 0: in the whole image "
            "(default: the data set's).",
        ),
    ] = None
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only this many images, from the first.")
    ] = None
    skip_bad: SkipBad = False
    device: Device = "auto"
    output: Output

    @property
    def inversion(self) -> InversionConfig:
        """Settings of MaskInversion."""
        return InversionConfig(steps=self.steps, learning_rate=self.learning_rate, alpha=self.alpha)

    @property
    def names(self) -> tuple[str, ...]:
        """The models, each once."""
        named = (name.strip() for name in self.models.split(","))
        return tuple(dict.fromkeys(name for name in named if name))

    def rows(self, kind: str, *inputs: Path | None) -> list[Entry]:
        """Return the methods; raise for values that cannot work, before anything is loaded."""
        from ...bench.measures.entries import methods

        self.output.check(kind, *inputs, self.method_weights, *self.names)
        usual = "all"
        if kind in ("maps", "masks"):
            usual = MASKINVERSION
        if kind == "maps" and self.methods not in (None, usual):
            raise InputError("bench maps compares maps of MaskInversion; leave --methods out.")
        chosen = usual if self.methods is None else self.methods
        rows = methods(chosen, self.inversion, self.method_weights)
        for noun, named in (("model", self.names), ("method", rows)):
            if not named:
                raise InputError(f"--{noun}s names no {noun}; leave the option out.")
        return rows


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
    template: Annotated[str, typer.Option(help="Prompt.")] = PROMPT,
    options: BenchOptions,
) -> None:
    """Measure on your own images: which method and model names your regions best."""
    rows = options.rows("folder", images, masks, names)
    from ...bench.datasets.label_image_dataset import ImageFolder

    _measure("folder", ImageFolder(images, masks, names, template=template), rows, options)


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
        data: Data = None,
        split: Annotated[
            str | None,
            typer.Option(help="Split of the set (default: its first; bench datasets lists them)."),
        ] = None,
        options: BenchOptions,
    ) -> None:
        dataset.check_split(split)
        rows = options.rows(dataset.name, data)
        _measure(dataset.name, dataset.open(data, split), rows, options)


for _dataset in DATASETS.values():
    _of_a_set(_dataset)


def _of_variants(kind: Variants, summary: str) -> None:
    @bench.command(kind, help=summary)
    @with_paper(context=0.0)
    @with_option_groups
    def command(
        *,
        on: Annotated[str, typer.Option(help=f"One of scenes, {', '.join(DATASETS)}.")] = "scenes",
        data: Data = None,
        scenes: Annotated[
            int, typer.Option(min=1, help="Scenes, where they are measured on.")
        ] = 40,
        options: BenchOptions,
    ) -> None:
        rows = options.rows(kind, data)
        if on not in ("scenes", *DATASETS):
            raise InputError(f"--on takes one of scenes, {', '.join(DATASETS)}; got {on!r}.")
        from ...bench.datasets.scene_dataset import DrawnScenes
        from ...bench.measures import entries

        real = None if on == "scenes" else DATASETS[on].open(data)
        model = load_measured(options.names[0], options.device)
        if kind == "maps":
            rows = entries.maps(options.inversion, model.num_layers)
        elif kind == "masks":
            rows = entries.masks(rows)
        _measure(kind, real or DrawnScenes(model, scenes), rows, options)


_of_variants("methods", "All methods on scenes of drawings, which the bundled model knows.")
_of_variants("maps", "MaskInversion by each explainability map it can match.")
_of_variants("masks", "Masks as they are, eroded, dilated, and their boxes.")


def _measure(kind: str, dataset: Dataset, rows: list[Entry], options: BenchOptions) -> None:
    from ...bench.measures.figures_file import write_figures
    from ...bench.measures.measuring import Measuring, MeasuringPlan, open_records

    plan = MeasuringPlan(
        models=options.names,
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
    job = Measuring(
        dataset, plan, store, lambda name: load(RunSettings(model=name, device=options.device))
    )
    follow_records(job, store.file)
    page = job.page(kind)
    if output.json is not None:
        write_figures(page, output.json)
    output.show(page)


def follow_records(job: Measuring, file: Path | None) -> None:
    """Measure, and say what is measured again or left out, also after an error."""
    try:
        follow(job.run, file, job.store.records)
    finally:
        for line in (*job.notes(), *(f"Left out: {why}" for why in job.skipped.values())):
            say(line)
