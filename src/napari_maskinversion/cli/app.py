"""The command line: all commands (``demo`` and ``doctor`` are short), and how errors are shown.

Quick to start: torch is imported when a model is first used.
"""

from __future__ import annotations

import importlib
import io
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from .. import __version__
from ..base.errors import InputError, MaskInversionError
from ..base.wording import one_line
from ..doctor.checks import MARK, examine
from .batch import batch_command
from .bench.shared import DRAWN
from .bench.speed import bench
from .captions import caption_command, captions
from .console import echo, say
from .export import export_command
from .find import find_command
from .imagine import imagine_command
from .labels import labels
from .library import library
from .models import methods_command, models
from .project import project
from .rollout import rollout_command
from .run import run_command
from .segment import segment_command

BAD_INPUT: Final = 2  # exit codes
INTERNAL: Final = 1
_DEBUG: Final = "--debug"
_PACKAGE: Final = Path(__file__).parents[1]
SOURCE: Final = "https://github.com/napari-maskinversion/napari-maskinversion"
_COLORS: Final = {"ok": "green", "note": "yellow", "problem": "red"}  # of the doctor


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for the files if there is no display.")] = Path(
        "demo_output"
    ),
    screenshot: Annotated[
        bool,
        typer.Option(
            "--screenshot",
            help="Write the files and a screenshot and close, even if there is a display.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="As --screenshot; then print what was made, and fail if something is missing.",
        ),
    ] = False,
) -> None:
    """Open napari with a sample scene and label its regions.

    Without a display a virtual one is used, and files and a screenshot are written.
    """
    # By name and late: the command line does not depend on napari.
    module = importlib.import_module("napari_maskinversion._napari.plugin.demo")
    status = module.run_demo(out, screenshot=screenshot or check)
    if check and status == 0:
        echo("\n".join(module.describe(out)))
    raise typer.Exit(status)


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print all facts as JSON.")] = False,
) -> None:
    """Check the installation, and show how to fix problems.

    The exit status is 1 if there is a problem; notes (no GPU, no Qt) leave it at 0. Opens no
    connection. Paths in your home folder begin with ~: the report can be shown to others.
    """
    report = examine()
    if as_json:
        echo(report.json())
    else:
        console = Console(highlight=False, soft_wrap=True)
        for line in report.text().splitlines():
            text = Text(line)
            text.stylize(_COLORS.get(line[:MARK].strip(), ""), 0, MARK)
            console.print(text)
    raise typer.Exit(1 if report.problems else 0)


app = typer.Typer(
    name="napari-maskinversion",
    help="Label, explain and embed the regions of an image (MaskInversion on CLIP).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run")(run_command)
app.command("batch")(batch_command)
app.command("find")(find_command)
app.command("caption")(caption_command)
app.command("segment")(segment_command)
app.command("imagine")(imagine_command)
app.command("export")(export_command)
app.command("rollout")(rollout_command)
app.command("methods")(methods_command)
app.command("demo")(demo_command)
app.command("doctor")(doctor_command)
app.add_typer(project, name="project")
app.add_typer(models, name="models")
app.add_typer(labels, name="labels")
app.add_typer(library, name="library")
app.add_typer(captions, name="captions")
app.add_typer(bench, name="bench")
# What trains and measures the bundled model, and tunes it as the paper did, is not installed.
OF_THE_REPOSITORY: Final = {
    "benchmarks.drawn.commands": (bench, DRAWN),
    "benchmarks.paper.commands": (bench, ("tune",)),
    "research.demo_model.commands": (app, ("rebuild-demo", "rebuild-demo-captions")),
}


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"napari-maskinversion {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(_DEBUG, help="Show where an internal error happened.")
    ] = False,
) -> None:
    pass  # `main` reads --debug, wherever it stands


@cache
def command() -> Callable[[list[str]], object]:
    """Return the whole command line, which is made once for a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; errors are one line.

    The exit code is 2 if the user can do something about it, 1 if we have to.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files can hold any bytes
    words = sys.argv[1:]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning, set())
            command()([argument for argument in words if argument != _DEBUG])
    except MaskInversionError as error:
        say(f"Error: {one_line(error)}")
        sys.exit(BAD_INPUT)
    except OSError as error:
        # A file that no reader or writer has named: a name that is too long, a disk that is gone.
        if _DEBUG in words or error.filename is None:
            _internal(error, words)
        say(f"Error: {error.filename}: {error.strerror or error}.")
        sys.exit(BAD_INPUT)
    except Exception as error:
        if isinstance(error, MemoryError | RuntimeError):
            from ..base.oom_fallback import is_out_of_memory

            if is_out_of_memory(error):
                say(
                    "Error: there was not enough memory; use a smaller --chunk-size, or "
                    "--device cpu."
                )
                sys.exit(BAD_INPUT)
        _internal(error, words)


def _show_warning(
    usual: Callable[..., None],
    said: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    *where: Any,
) -> None:
    """Show a warning of this package as one line, those of others as Python does."""
    if category is UserWarning and Path(filename).is_relative_to(_PACKAGE):
        if str(message) not in said:  # a file may be read more than once
            said.add(str(message))
            say(str(message))
    else:
        usual(message, category, filename, *where)


def _internal(error: Exception, words: list[str]) -> NoReturn:
    """End the program for an error that is ours; it is raised again with --debug."""
    if _DEBUG in words:
        raise error
    error_text = " ".join(f"{type(error).__name__}: {error}".split())
    say(f"Internal error ({error_text}); please report it. {_DEBUG} shows where it happened.")
    sys.exit(INTERNAL)


def add_from_repository(module: str, to: typer.Typer, names: tuple[str, ...], root: Path) -> None:
    """Add commands of a module that the repository alone has, or what says where they are."""
    if (root / module.replace(".", "/")).with_suffix(".py").is_file():
        if str(root) not in sys.path:
            sys.path.append(str(root))
        importlib.import_module(module)  # adds them
        return
    folder = module.partition(".")[0]

    def elsewhere(context: typer.Context) -> None:
        raise InputError(
            f"{context.info_name} is not part of the installed package: its code is the folder "
            f"{folder}/ of the repository ({SOURCE}). Clone it and install it with pip install -e."
        )

    for name in names:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        to.command(name, hidden=True, context_settings=anything)(elsewhere)


for _module, (_to, _names) in OF_THE_REPOSITORY.items():
    add_from_repository(_module, _to, _names, Path(__file__).parents[3])
