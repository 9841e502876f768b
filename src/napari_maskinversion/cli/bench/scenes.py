"""The ``bench`` commands on scenes, and what all of them share: options, output, progress."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...base import progress_words as words
from ...base.errors import InputError
from ...engine.methods.registry import Method
from ...engine.settings import InversionConfig
from ...pipeline.captions import CaptionRequest
from ..captions.generate import Decoder, DecoderFile
from ..console import INTERRUPTED, ProgressBar, ProgressLines, echo, say
from ..loading import load, load_captioner
from ..options import setting_option, with_option_groups, with_paper

if TYPE_CHECKING:
    from ...bench.datasets.scenes import ModelUnderTest
    from ...bench.measures.generated import CaptionsPlan
    from ...language.generation.decoder import CaptionDecoder

PAPER = InversionConfig()
SMALL_WIDTH = 256  # of an image tower
REAL_SETS = ("dubai-aerial", "bccd", "dsb2018-nuclei")
_MARK = "<!-- napari-maskinversion bench -->"

bench = typer.Typer(
    help="Measure models and methods on regions with known labels.", no_args_is_help=True
)

ModelName = Annotated[str, typer.Option(help="Model name, or a model's folder.")]
Device = Annotated[str, setting_option("device")]
Scenes = Annotated[
    int, typer.Option(help="Scenes of each kind; five times as many of a single object.")
]
Steps = Annotated[int, setting_option("inversion.steps")]
Rate = Annotated[float, setting_option("inversion.learning_rate")]
Alpha = Annotated[float, setting_option("inversion.alpha")]
Sprites = Annotated[
    Path | None,
    typer.Option(
        help="A node_modules folder with the emoji sets (default: NAPARI_MASKINVERSION_SPRITES, "
        "then the cache folder, fetched with npm)."
    ),
]
Short = Annotated[bool, typer.Option("--short", help="Use only the bundled drawings, offline.")]
Markdown = Annotated[Path | None, typer.Option(help="Write the tables to this file.")]
Plots = Annotated[Path | None, typer.Option(help="Folder for the plots as SVG files.")]
RealImages = Annotated[
    Path | None,
    typer.Option(help="Folder of the real images (default: NAPARI_MASKINVERSION_DATA)."),
]
PerClass = Annotated[int, typer.Option(help="Most real regions of a class.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images that cannot be used, and list them.")
]


# -- what all commands share ------------------------------------------------------------------


def is_ours(file: Path) -> bool:
    """Return whether an earlier bench command wrote a file."""
    from ...base.targets import mentions_us
    from ...bench.measures.figures_file import ENDING, read_figures

    if file.suffix == ".svg":
        return mentions_us(file)
    if file.name.endswith(ENDING):
        return file.exists()  # it is refused, and with a better reason, where it is read
    try:
        if file.suffix in (".json", ".jsonl"):
            return bool(read_figures(file))
        with file.open("rb") as opened:
            return opened.read(len(_MARK)) == _MARK.encode()
    except (InputError, OSError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where figures go."""

    json: Annotated[
        Path | None,
        typer.Option("--json", help="Keep the figures here; a stopped measurement continues."),
    ] = None
    markdown: Markdown = None
    plots: Plots = None
    overwrite: Annotated[bool, typer.Option(help="Measure again what the JSON file holds.")] = False

    def check(self, kind: str, *inputs: Path | str | None) -> None:
        """Raise for files that must not or cannot be written."""
        from ...base.targets import check_targets
        from ...bench.measures.figures_file import records_path
        from ...bench.reports.plots import check_plots, plot_files

        if self.plots is not None and kind == "captions":
            raise InputError("bench captions draws no plots; leave --plots out.")
        if self.json is not None and self.json.is_dir():
            raise InputError(f"{self.json} is a folder; name a file.")
        targets = [] if self.json is None else [self.json, records_path(self.json)]
        targets += [] if self.markdown is None else [self.markdown]
        targets += [] if self.plots is None else plot_files(kind, self.plots)
        read = [Path(path) for path in inputs if path is not None]
        check_targets(targets, overwrite=self.overwrite, inputs=read, is_ours=is_ours)
        if self.plots is not None:
            check_plots(self.plots)

    def show(self, page: dict[str, Any]) -> None:
        """Print the tables of figures and plot them."""
        from ...base.atomic_files import atomic_path
        from ...bench.reports.plots import plot
        from ...bench.reports.tables import markdown

        text = markdown(page)
        echo(text)
        if self.markdown is not None:
            self.markdown.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(self.markdown) as part:
                part.write_text(f"{_MARK}\n\n{text}", encoding="utf-8")
        if self.plots is not None:
            for file in plot(page, self.plots):
                say(f"Wrote {file}")


def subject_of_name(model: str, device: str) -> ModelUnderTest:
    """Load a model with the names that it chooses from."""
    import torch

    from ...bench.datasets.scenes import subject_of

    subject = subject_of(load(model, None, device))
    if subject.model.embed_dim <= SMALL_WIDTH:
        torch.set_num_threads(1)  # threads make small tensors slower
    return subject


def at_least_one(**options: int | None) -> None:
    """Refuse numbers below 1, by the names of their options."""
    for name, value in options.items():
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1; got {value}.")


def check_sprites(folder: Path | None) -> None:
    """Raise if there is no such folder."""
    if folder is not None and not folder.is_dir():
        raise InputError(f"There is no folder {folder}; --sprites names a node_modules folder.")


def real_folder(wanted: bool | None, data: Path | None) -> Path | None:
    """Return the folder of the real images; None if there is none, or it is not wanted."""
    if wanted is False:
        return None
    from ...demo_model.domains import data_folder

    folder = data or data_folder()
    if folder is None and wanted:
        raise InputError(
            "There are no real images: set NAPARI_MASKINVERSION_DATA, or --data, to their folder."
        )
    missing = [n for n in REAL_SETS if folder is not None and not (folder / n / "images").is_dir()]
    if missing:
        raise InputError(
            f"{folder} has no {', '.join(missing)} with images; --no-real leaves them out."
        )
    return folder


def follow(
    run: Callable[[Callable[[str, float], None]], None], file: Path | None, finished: Sized
) -> None:
    """Measure under a progress bar, or with lines; Ctrl-C keeps the finished parts."""
    lines = ProgressLines()
    with ProgressBar(remaining=True) as bar:

        def show(text: str, share: float) -> None:
            bar.show(text, share)
            lines.show(text, share)

        bar.show(words.STARTING)
        try:
            run(show)
        except KeyboardInterrupt:
            where = "nothing is kept (--json FILE would)"
            if file is not None:
                where = f"{len(finished)} finished parts are in {file}; run it again"
            say(f"Stopped: {where}.")
            raise typer.Exit(INTERRUPTED) from None


# -- scenes and captions ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model is shown: drawings, and real images."""

    real: Annotated[
        bool | None,
        typer.Option("--real/--no-real", help="Also use real images (default: if there are any)."),
    ] = None
    data: RealImages = None
    sprites: Sprites = None
    short: Short = False

    def folder(self) -> Path | None:
        """Return the folder of real images, or None; refuse one that is not there."""
        check_sprites(self.sprites)
        return None if self.short else real_folder(self.real, self.data)


@bench.command("scenes")
@with_option_groups
def scenes_command(
    *,
    model: ModelName = "demo",
    scenes: Scenes = 200,
    objects: Annotated[
        str, typer.Option(help="Objects in a scene, separated by commas.")
    ] = "3,4,5",
    per_class: PerClass = 100,
    shown: Shown,
    steps: Steps = 10,
    learning_rate: Rate = PAPER.learning_rate,
    resolution: Annotated[
        int | None,
        typer.Option(
            help="Side of MaskInversion's input in pixels (default: chosen on other scenes)."
        ),
    ] = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    output: Output,
) -> None:
    """Name objects and regions of new scenes and real images by MaskInversion and other methods.

    Each method has the settings that were best on validation scenes (or the validation split of
    real images), never on those that are measured.
    """
    at_least_one(scenes=scenes, per_class=per_class)
    counts, folder = _counts(objects), shown.folder()
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    output.check("scenes", model, folder, shown.sprites)
    from ...bench.measures.figures_file import FiguresFile
    from ...bench.measures.scenes import SHORT_SCENES, ScenesBench, ScenesPlan
    from ...bench.reports.tables import left_out

    subject = subject_of_name(model, device)
    subject.resolution(resolution)
    plan = ScenesPlan(
        scenes=min(scenes, SHORT_SCENES) if shown.short else scenes,
        objects=(3,) if shown.short else counts,
        inversion=inversion,
        resolution=resolution,
        per_class=per_class,
        sprites=shown.sprites,
        real=folder,
        short=shown.short,
        skip_bad=skip_bad,
    )
    record = FiguresFile(output.json, "scenes", plan.settings(subject), overwrite=output.overwrite)
    if not shown.short and folder is None:
        say("Without real images: set NAPARI_MASKINVERSION_DATA, or --data, to their folder.")
    job = ScenesBench(subject, plan, record)
    for kind in job.unknown:
        say(f"{subject.model.name} did not learn the names of kind {kind}; they are left out.")
    try:
        follow(job.run, record.file, record.parts)
    finally:
        for why in left_out(record.page):
            say(f"Left out: {why}")
    output.show(record.page)


@bench.command("captions")
@with_option_groups
def captions_command(
    *,
    model: ModelName = "demo",
    decoder: Decoder = "demo",
    decoder_file: DecoderFile = None,
    scenes: Scenes = 60,
    per_class: PerClass = 15,
    shown: Shown,
    device: Device = "auto",
    output: Output,
) -> None:
    """Measure how often a generated sentence names the object in its region."""
    request = CaptionRequest(decoder=decoder, file=decoder_file)
    request.check(model, Method())
    at_least_one(scenes=scenes, per_class=per_class)
    folder = shown.folder()
    output.check("captions", model, decoder_file, folder, shown.sprites)
    from ...bench.measures.generated import CaptionsPlan

    more = {"sprites": shown.sprites, "real": folder, "short": shown.short}
    plan = CaptionsPlan(scenes=scenes, per_class=per_class, **more)  # type: ignore[arg-type]
    subject = subject_of_name(model, device)
    measure_captions(subject, load_captioner(request, subject.model), plan, output)


def measure_captions(
    subject: ModelUnderTest, decoder: CaptionDecoder, plan: CaptionsPlan, output: Output
) -> dict[str, Any]:
    """Measure a decoder's sentences, show the tables, return the page."""
    from ...bench.measures.figures_file import FiguresFile
    from ...bench.measures.generated import CaptionsBench

    settings = plan.settings(subject, decoder)
    record = FiguresFile(output.json, "captions", settings, overwrite=output.overwrite)
    follow(CaptionsBench(subject, decoder, plan, record).run, record.file, record.parts)
    output.show(record.page)
    return record.page


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1 or counts[-1] > 5:
        raise InputError(f"--objects takes numbers from 1 to 5 such as 3,4,5; got {text!r}.")
    return counts


# -- curves -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOptions:
    """Options that the commands for curves share."""

    model: ModelName = "demo"
    scenes: Scenes = 200
    objects: Annotated[int, typer.Option(help="Objects in a scene.")] = 3
    resolution: Annotated[int | None, setting_option("resolution")] = None
    sprites: Sprites = None
    device: Device = "auto"
    output: Output
    short: Short = False


@bench.command("steps")
@with_paper(without=("steps",))
@with_option_groups
def steps_command(
    *,
    steps: Annotated[int, typer.Option(help="Last step of the curve.")] = 30,
    learning_rate: Rate = PAPER.learning_rate,
    alpha: Alpha = 0.0,
    options: CurveOptions,
) -> None:
    """Measure accuracy, heatmap overlap and loss after every step of the inversion."""
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate, alpha=alpha)
    _curve("steps", tuple(float(k) for k in range(steps + 1)), inversion, options)


@bench.command("alpha")
@with_paper()
@with_option_groups
def alpha_command(
    *,
    steps: Steps = 10,
    learning_rate: Rate = PAPER.learning_rate,
    alphas: Annotated[
        str, typer.Option(help="Weights of the regulariser, separated by commas.")
    ] = "0,0.25,0.5,1,2,3,5,7.5,10,20,30",
    options: CurveOptions,
) -> None:
    """Measure accuracy and heatmap overlap for several values of alpha."""
    try:
        values = tuple(float(a) for a in alphas.split(","))
    except ValueError:
        raise InputError(f"--alphas takes numbers such as 0,1,5; got {alphas!r}.") from None
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    for value in values:
        InversionConfig(alpha=value)  # raises for values that cannot be weights
    _curve("alpha", values, inversion, options)


def _curve(
    kind: str, values: tuple[float, ...], inversion: InversionConfig, options: CurveOptions
) -> None:
    at_least_one(scenes=options.scenes)
    _counts(str(options.objects))
    check_sprites(options.sprites)
    output = options.output
    output.check(kind, options.model, options.sprites)
    from ...bench.measures.figures_file import FiguresFile
    from ...bench.measures.scenes import SHORT_SCENES, CurveBench, CurvePlan

    subject = subject_of_name(options.model, options.device)
    plan = CurvePlan(
        kind=kind,
        values=values,
        inversion=inversion,
        resolution=subject.resolution(options.resolution),
        scenes=min(options.scenes, SHORT_SCENES) if options.short else options.scenes,
        objects=options.objects,
        short=options.short,
        sprites=options.sprites,
    )
    record = FiguresFile(output.json, kind, plan.settings(subject), overwrite=output.overwrite)
    follow(CurveBench(subject, plan, record).run, record.file, record.parts)
    output.show(record.page)


# -- kept figures -----------------------------------------------------------------------------


@bench.command("show")
def show_command(
    figures: Annotated[Path, typer.Argument(help="JSON file of another bench command.")],
    markdown: Markdown = None,
    plots: Plots = None,
    overwrite: Annotated[bool, typer.Option(help="Replace files that others wrote.")] = False,
) -> None:
    """Print the tables of saved figures, and plot them."""
    from ...bench.measures.figures_file import read_figures

    page = read_figures(figures)
    output = Output(markdown=markdown, plots=plots, overwrite=overwrite)
    output.check(page["kind"], figures)
    try:
        output.show(page)
    except InputError:  # it is a ValueError
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{figures} holds no whole figures of a bench command ({type(error).__name__}: "
            f"{error}); name another file, or measure again."
        ) from None
