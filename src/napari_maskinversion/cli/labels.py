"""The ``labels`` commands."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import InputError
from ..base.targets import check_targets
from ..language.labels.files import (
    FILE_SUFFIXES,
    LabelFile,
    read_label_file,
    unsupported_fields,
    write_label_file,
)
from ..language.labels.presets import PREFIX, preset, presets, vocabulary_of
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.inputs import input_files
from .console import echo, print_table, say

labels = typer.Typer(help="Lists of labels: presets and files.", no_args_is_help=True)


def _named(name: str) -> Vocabulary:
    """Read a file, or a preset by its name."""
    is_preset = name in (entry.name for entry in presets())
    is_file = _is_file(name)
    suffix = Path(name).suffix.lower()
    if not (is_file or is_preset or name.startswith(PREFIX) or suffix in FILE_SUFFIXES):
        names = ", ".join(entry.name for entry in presets())
        raise InputError(f"{name!r} is neither a label file nor a preset ({names}).")
    return vocabulary_of(f"{PREFIX}{name}" if is_preset and not is_file else name)


def _is_file(name: str) -> bool:
    return os.path.isfile(name)  # noqa: PTH113


def _described(vocabulary: Vocabulary, name: str) -> LabelFile:
    """Return a vocabulary with the description and source of its file or preset."""
    about = read_label_file(name) if _is_file(name) else preset(name)
    return replace(vocabulary.content, description=about.description, source=about.source)


@labels.command("list")
def list_command() -> None:
    """List the vocabularies that come with the package."""
    rows = []
    for entry in presets():
        rows.append(
            (entry.name, str(len(entry.vocabulary.labels)), entry.description, entry.source)
        )
    print_table(("name", "labels", "what", "source"), rows, right=("labels",), whole="name")
    echo(f"To use one: --labels {PREFIX}coco; to see it: labels show coco")


@labels.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A preset's name, or a file of labels.")],
) -> None:
    """Show the labels of a preset or a file as they are read, and their prompts."""
    vocabulary = _named(name)
    rows = [(e.name, " | ".join(e.synonyms), e.group, e.color) for e in vocabulary.full_labels]
    print_table(("label", "synonyms", "group", "colour"), rows)
    echo(f"{len(vocabulary.labels)} labels, {len(vocabulary.words)} words")
    echo("Prompts: " + "; ".join(vocabulary.templates))
    if vocabulary.threshold is not None:
        echo(f"Regions below a similarity of {vocabulary.threshold:g} are 'none of these'")


@labels.command("convert")
def convert_command(
    source: Annotated[str, typer.Argument(help="A preset's name, or a file of labels.")],
    target: Annotated[Path, typer.Argument(help="File to write: .txt, .csv, .yaml or .yml.")],
    colors: Annotated[
        bool, typer.Option("--colours", "--colors", help="Give every label a colour.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace the file.")] = False,
) -> None:
    """Write labels in another format. YAML keeps everything; CSV and text leave fields out."""
    vocabulary = _named(source)
    if colors:
        vocabulary = vocabulary.with_colors()
    check_targets([target], overwrite=overwrite, inputs=input_files(source))
    content = _described(vocabulary, source)
    lost = unsupported_fields(content, target.suffix)
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    write_label_file(content, target, overwrite=overwrite)
    echo(f"Wrote {len(vocabulary.labels)} labels in {target}")
    if lost:
        say(f"Left out, since {target.suffix} files cannot hold them: {', '.join(lost)}.")
