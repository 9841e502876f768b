"""The ``library`` commands, and ``--library`` of the commands that compute regions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..base.errors import InputError, MaskInversionError
from ..base.targets import check_folder, check_targets
from ..base.wording import one_line, short_names
from ..language.labels.learned import SUFFIX
from ..library.library import Library
from ..results.settings import RunSettings
from .console import ProgressBar, echo, print_table, say
from .options import template_option, with_option_groups
from .run_options import load

if TYPE_CHECKING:
    import pandas as pd

    from ..library.filters import Where

library = typer.Typer(
    help="A library: regions of many images, found by words and by examples.", no_args_is_help=True
)

Unlike = Annotated[list[int] | None, typer.Option(help="Not like this region; may be repeated.")]
Place = Annotated[Path, typer.Argument(metavar="LIBRARY", help="Folder of the library.")]
Into = Annotated[
    Path | None,
    typer.Option(
        "--library", help="Add the regions to the library in this folder, too; it may be new."
    ),
]
Top = Annotated[int, typer.Option(min=1, help="Regions to print.")]
_ARCHIVE = "results.npz"
_LISTED = 20  # doubtful decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Options that choose regions."""

    label: Annotated[list[str] | None, typer.Option(help="Only this class; may be repeated.")] = (
        None
    )
    decision: Annotated[
        list[str] | None,
        typer.Option(help="Only accepted, rejected, skipped or undecided; may be repeated."),
    ] = None
    image: Annotated[
        str | None,
        typer.Option(help='Only images of this name or end of a path, such as "*.tif" in quotes.'),
    ] = None
    smallest: Annotated[float | None, typer.Option(help="At least so many pixels.")] = None
    largest: Annotated[float | None, typer.Option(help="At most so many pixels.")] = None
    since: Annotated[
        str | None, typer.Option(help="Decided, else computed, on this date (2026-11-30) or later.")
    ] = None
    before: Annotated[str | None, typer.Option(help="The same, earlier than this date.")] = None
    space: Annotated[
        int | None, typer.Option(help="Number of the embedding space, see library info.")
    ] = None

    @property
    def where(self) -> Where:
        """The filters that were chosen."""
        chosen: Any = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in chosen.items() if value is not None}  # type: ignore[return-value]


@library.command("new")
def new_command(place: Place) -> None:
    """Make an empty library."""
    Library.new(place)
    say(f"Made the library {place}; 'library add {place} results.npz' adds regions to it.")


@library.command("add")
def add_command(
    place: Place,
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="results.npz of run, its folder, the folder of a batch, or Parquet of library "
            "export."
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which to look for the images, for thumbnails (default: beside the "
            "results, and the current folder)."
        ),
    ] = None,
) -> None:
    """Add regions; those that the library has already of an image are replaced."""
    opened = Library.open(place)
    files = list(_files(sources))
    count = failed = 0
    with ProgressBar(remaining=True) as bar:
        for number, file in enumerate(files):
            bar.show("Adding results", number, len(files))
            try:
                count += opened.add(file, image=images)
            except MaskInversionError as error:
                if len(files) == 1:
                    raise
                failed += 1
                say(one_line(error))
    say(added(opened, count))
    if failed:
        raise InputError(f"{failed} of {len(files)} files could not be added; see above.")


def _files(sources: Sequence[Path]) -> Iterator[Path]:
    for source in sources:
        if not source.is_dir():
            yield source
            continue
        files = [source / _ARCHIVE] * (source / _ARCHIVE).is_file()
        files += sorted(source.glob(f"archives/*/{_ARCHIVE}"))
        if not files:
            raise InputError(
                f"{source} has no {_ARCHIVE} (run --format npz) and is no folder of a batch."
            )
        yield from files


@library.command("info")
def info_command(place: Place) -> None:
    """Show what a library holds, and with which models and settings it was computed."""
    about = Library.open(place).info()
    states = ", ".join(f"{count} {state}" for state, count in about["decisions"].items())
    echo(f"{about['regions']} regions ({states or 'none'}) of {about['images']} images")
    echo(f"{about['bytes'] / 1e6:,.1f} MB; vectors that 'library compact' drops: {about['holes']}")
    rows = []
    for number, space in about["spaces"].items():
        method = str(space["space"]).partition("/")[2] or "maskinversion"
        listed = ("regions", "model", "space", "architecture")
        more = (f"{name.rpartition('.')[2]} {space[name]}" for name in space if name not in listed)
        rows.append((str(number), str(space["regions"]), space["model"], method, ", ".join(more)))
    print_table(("space", "regions", "model", "method", "settings"), rows, right=("regions",))


@library.command("search")
@with_option_groups
def search_command(
    place: Place,
    words: Annotated[
        list[str],
        typer.Argument(
            help='Words; "not debris" for what is to be avoided; or "cell, not debris".'
        ),
    ],
    filters: Filters,
    like: Annotated[
        list[int] | None, typer.Option(help="Also like this region; may be repeated.")
    ] = None,
    unlike: Unlike = None,
    template: Annotated[list[str] | None, template_option("photo")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name, or checkpoint file (default: the library's).")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    top: Top = 20,
) -> None:
    """Print the regions that are most similar to words, and to regions."""
    opened = Library.open(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the search says it, of the model as it is here
        space = opened.space([*(like or ()), *(unlike or ())], number=filters.space)
    architecture = None if model else space.architecture
    loaded = load(RunSettings(model=model or space.model, architecture=architecture, device=device))
    answers = opened.search(
        *words,
        like=like or (),
        unlike=unlike or (),
        top=top,
        model=loaded,
        templates=template or (),
        **filters.where,
    )
    _print(answers, ", ".join(words))


@library.command("similar")
@with_option_groups
def similar_command(
    place: Place,
    regions: Annotated[
        list[int], typer.Argument(help="Numbers of regions in the library, as search prints them.")
    ],
    filters: Filters,
    unlike: Unlike = None,
    top: Top = 20,
) -> None:
    """Print the regions that are most similar to others."""
    opened = Library.open(place)
    answers = opened.search(like=regions, unlike=unlike or (), top=top, **filters.where)
    _print(answers, f"like {', '.join(map(str, regions))}")


@library.command("train")
@with_option_groups
def train_command(
    place: Place,
    filters: Filters,
    out: Annotated[Path, typer.Option(help=f"File of the classifier; ends in {SUFFIX}.")],
    on: Annotated[Literal["decisions"], typer.Option(help="What to learn.")] = "decisions",
    labels: Annotated[
        str | None, typer.Option(help="All classes (default: the words that were accepted).")
    ] = None,
    template: Annotated[list[str] | None, template_option("photo")] = None,
    features: Annotated[
        str,
        typer.Option(
            help="Learn from these, too: size, shape, intensity, with commas between. Shape and "
            "intensity are of runs with --measure."
        ),
    ] = "",
    overwrite: Annotated[bool, typer.Option(help="Replace the file.")] = False,
) -> None:
    """Learn a classifier from decisions; --classifier of run and batch ranks words by it."""
    opened = Library.open(place)
    if out.suffix.lower() != SUFFIX:
        out = out.with_name(out.name + SUFFIX)
    check_targets([out], overwrite=overwrite)
    trained = opened.train(labels, features=features, templates=template or (), **filters.where)
    names = ("class", "decisions", "right", "95 %")
    print_table(names, trained.rows(), right=names[1:])
    for note in (trained.summary, *trained.notes):
        say(note)
    if doubts := trained.doubts:
        echo("Decisions that may be wrong, by image and region, the worst first:")
        for line in doubts[:_LISTED]:
            echo(f"- {line}")
        if len(doubts) > _LISTED:
            echo(f"and {len(doubts) - _LISTED:,} more")
    say(f"Wrote {trained.save(out, overwrite=overwrite)}")


def _print(answers: pd.DataFrame, title: str) -> None:
    columns = ("id", "image", "plane", "region", "label", "decision", "similarity")
    planes = answers["plane"].any()
    shown = [name for name in columns if name != "plane" or planes]
    names = short_names(answers["image"])
    rows = []
    for _, row in answers.iterrows():
        cells = []
        for name in shown:
            if name == "similarity":
                cells.append(f"{row[name]:.3f}")
            elif name == "image":
                cells.append(names[row[name]])
            else:
                cells.append(str(row[name]))
        rows.append(cells)
    print_table(shown, rows, title, right=("id", "region", "similarity"))


@library.command("export")
@with_option_groups
def export_command(
    place: Place,
    file: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    filters: Filters,
    overwrite: Annotated[bool, typer.Option(help="Replace the file.")] = False,
) -> None:
    """Write regions with embeddings and thumbnails as Parquet, which library add reads."""
    count = Library.open(place).export(file, overwrite=overwrite, **filters.where)
    say(f"Wrote {count} regions in {file}")


@library.command("remove")
@with_option_groups
def remove_command(
    place: Place,
    filters: Filters,
    regions: Annotated[
        list[int] | None, typer.Option("--region", help="Only this one; may be repeated.")
    ] = None,
) -> None:
    """Remove regions from a library; images and results stay as they are."""
    chosen: Any = {}
    if regions:
        chosen = {"ids": regions}
    count = Library.open(place).remove(**{**filters.where, **chosen})
    say(f"Removed {count} regions from {place}")


@library.command("compact")
def compact_command(place: Place) -> None:
    """Make a library smaller: drop the vectors of regions that were removed or replaced."""
    say(f"Dropped {Library.open(place).compact()} vectors from {place}")


@library.command("verify")
def verify_command(place: Place) -> None:
    """Look for damage, and for images that are gone or have changed; the exit code is then 1."""
    problems = 0
    for line in Library.open(place).verify():
        echo(line)
        problems += 1
    if problems:
        raise typer.Exit(1)
    echo(f"{place}: no problems")


def check_library(place: Path | None, out: Path) -> None:
    """Refuse a folder that cannot be a library, before any work."""
    if place is None:
        return
    if out.resolve().is_relative_to(place.resolve()):
        raise InputError(f"The results {out} would be in the library; choose another --library.")
    if place.exists() and any(place.iterdir() if place.is_dir() else "x"):
        Library.open(place)
    else:
        check_folder(place)


def added(opened: Library, count: int) -> str:
    """Return in a line how many regions were added."""
    return f"Added {count} regions to {opened.folder}, which has {opened.info()['regions']} now"
