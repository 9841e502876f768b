"""What the ``bench`` commands share: options, output, progress; and the command ``bench show``."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...base import progress_words as words
from ...base.errors import InputError
from ...results.settings import RunSettings
from ..console import echo, following, say
from ..options import setting_option
from ..run_options import load

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

SMALL_WIDTH = 256  # of an image tower
_MARK = "<!-- napari-maskinversion bench -->"
DRAWN: Final = ("scenes", "captions", "steps", "alpha")  # commands of the repository alone
REPORTS: Final[dict[str, str]] = {}  # modules that show figures of theirs, by command

bench = typer.Typer(
    help="Measure models and methods on regions with known labels.", no_args_is_help=True
)

ModelName = Annotated[str, typer.Option(help="Model name, or a model's folder.")]
Device = Annotated[str, setting_option("device")]
Steps = Annotated[int, setting_option("inversion.steps")]
Rate = Annotated[float, setting_option("inversion.learning_rate")]
Alpha = Annotated[float, setting_option("inversion.alpha")]
Markdown = Annotated[Path | None, typer.Option(help="Write the tables to this file.")]
Plots = Annotated[Path | None, typer.Option(help="Folder for the plots as SVG files.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images that cannot be used, and list them.")
]


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

        if self.plots is not None and kind in ("captions", "speed"):
            raise InputError(f"bench {kind} draws no plots; leave --plots out.")
        if self.json is not None and self.json.is_dir():
            raise InputError(f"{self.json} is a folder; name a file.")
        if self.json is None:
            targets = []
        else:
            targets = [self.json, records_path(self.json)]
        targets += [] if self.markdown is None else [self.markdown]
        targets += [] if self.plots is None else plot_files(kind, self.plots)
        read = []
        for path in inputs:
            if path is not None:
                read.append(Path(path))
        check_targets(targets, overwrite=self.overwrite, inputs=read, is_ours=is_ours)
        if self.plots is not None:
            check_plots(self.plots)

    def show(self, page: dict[str, Any]) -> None:
        """Print the tables of figures and plot them."""
        from ...base.atomic_files import atomic_path

        reports = import_module(REPORTS.get(page["kind"], "napari_maskinversion.bench.reports"))
        text = reports.markdown(page)
        echo(text)
        if self.markdown is not None:
            self.markdown.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(self.markdown) as part:
                part.write_text(f"{_MARK}\n\n{text}", encoding="utf-8")
        if self.plots is not None:
            for file in reports.plot(page, self.plots):
                say(f"Wrote {file}")


def load_measured(model: str, device: str) -> Backbone:
    """Load a model; small ones use one thread."""
    import torch

    loaded = load(RunSettings(model=model, device=device))
    if loaded.embed_dim <= SMALL_WIDTH:
        torch.set_num_threads(1)  # threads make small tensors slower
    return loaded


def follow(
    run: Callable[[Callable[[str, float], None]], None], file: Path | None, finished: Sized
) -> None:
    """Measure under a progress bar; Ctrl-C keeps the finished parts."""

    def stopped() -> str:
        if file is None:
            return "Stopped: nothing is kept (--json FILE would)."
        return f"Stopped: {len(finished)} finished parts are in {file}; run it again."

    with following(lambda *_: None, remaining=True, stopped=stopped) as bar:
        bar.show(words.STARTING)
        run(bar.show)


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
    if page["kind"] in DRAWN and page["kind"] not in REPORTS:
        raise InputError(
            f"{figures} holds figures of 'bench {page['kind']}', which the installed package does "
            "not have; show them with a clone of the repository."
        )
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
