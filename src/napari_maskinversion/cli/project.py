"""The ``project`` commands."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import InputError
from ..base.locks import hold
from ..base.targets import check_targets
from ..base.wording import listed
from ..batch.batch_model_sharing import Here
from ..batch.batch_running import plan
from ..batch.exporting import export_steps
from ..batch.opened import OUT, OpenProject, added_images, edit
from ..batch.project import (
    Project,
    ProjectImage,
    project_file,
    project_images,
    read_project,
    relative,
    stored_labels,
    stored_settings,
    write_project,
)
from ..language.captions.source import CaptionSource
from ..pipeline.inputs import input_files
from ..results.export.catalogue import FORMATS, JOINED
from ..results.settings import GROUPS, RunSettings
from .captions import Words
from .console import ProgressBar, echo, say
from .library import Into, check_library
from .many_images import ManyImages, ProjectPlace, counted, problems_of
from .options import (
    AcceptedOnly,
    Polygons,
    split_names,
    with_option_groups,
    with_paper,
    with_settings,
)

project = typer.Typer(help="Projects: many images in one file.", no_args_is_help=True)


@project.command("new")
@with_paper(template=["photo"])
@with_settings(*GROUPS)
def new_command(
    place: ProjectPlace,
    settings: RunSettings,
    many: ManyImages,
    words: Words,
    overwrite: Annotated[bool, typer.Option(help="Replace a project.")] = False,
    into: Into = None,
) -> None:
    """Make a project: pair images with regions, and keep words and settings."""
    file = project_file(place)
    pairs = many.pairs().pairs
    inputs = []
    for pair in pairs:
        for path in (pair.image, pair.regions):
            if path:
                inputs.append(path)
    inputs += input_files(
        words.labels, words.classifier, words.captions, many.table, settings.model
    )
    check_targets([file], overwrite=overwrite, inputs=inputs)
    folder = file.parent
    check_library(into, folder / OUT)
    new_project = Project(
        labels=stored_labels(words.only_list, folder),
        classifier=None if words.extended is None else relative(words.extended, folder),
        templates=tuple(words.template or ()),
        captions=None if words.captions is None else relative(words.captions, folder),
        caption_column=words.caption_column,
        library=None if into is None else relative(into, folder),
        settings=stored_settings(settings, folder),
        images=project_images(pairs, folder),
    )
    words.sentences()  # refuses what are no captions
    new_project.vocabulary(folder, settings.threshold)  # refuses what are no labels
    folder.mkdir(parents=True, exist_ok=True)
    write_project(new_project, file)
    say(f"Wrote {counted(len(new_project.images))} in {file}")


@project.command("add")
@with_option_groups
def add_command(place: ProjectPlace, many: ManyImages, into: Into = None) -> None:
    """Add images to a project; images already in it get these regions if they had none."""
    file = project_file(place)
    read_project(place)  # refused before images are looked for
    if into is not None:
        check_library(into, OpenProject.read(place).out)
        library = relative(into, file.parent)
        edit(file, lambda content: content.changed(library=library))
        say(f"What is computed for {file} from now on is added to the library {into}, too.")
        if not many.are_named:
            return
    pairs = many.pairs().pairs
    before: list[ProjectImage] = []

    def add(content: Project) -> Project:
        before[:] = content.images
        return added_images(content, pairs, file.parent, fill=True)

    images = edit(file, add).images
    filled = sum(image != earlier for image, earlier in zip(images, before, strict=False))
    added_count = len(images) - len(before)
    parts = []
    if added_count or not filled:
        parts.append(counted(added_count))
    if filled:
        parts.append(f"regions of {counted(filled)}")
    say(f"Added {' and '.join(parts)} to {file}, which has {counted(len(images))} now.")


@project.command("status")
def status_command(
    place: ProjectPlace,
    out: Annotated[
        Path | None, typer.Option(help="Also show the results of a batch in this folder.")
    ] = None,
) -> None:
    """Show how many images there are and how many are done."""
    opened = OpenProject.read(place)
    images = opened.project.images
    number = Counter(image.state for image in images)
    bare = sum(image.regions is None for image in images)
    words = [counted(len(images)), f"{number['done']} done", f"{number['skip']} to skip"]
    echo(", ".join([*words, f"{bare} without regions"]))
    if out is not None:
        work = plan(opened.with_results(out), captions=captions_hash(opened))
        echo(f"{out}: {counted(len(work.done))} computed, {len(work.tasks)} to compute")
        if work.stale_text:
            echo(work.stale_text)
        if work.damaged:
            echo(f"Files of these results changed or are gone: {listed(work.damaged)}")
        if work.others:
            echo(f"Results of images that are not in the project: {listed(work.others)}")


@project.command("check")
def check_command(place: ProjectPlace) -> None:
    """Read all images and regions, and list those that a batch cannot run."""
    opened = OpenProject.read(place)
    opened.check_words()
    # In its own folder are no results: all images are to be looked at.
    work = plan(opened.with_results(opened.folder), captions=captions_hash(opened))
    with Here() as executor:
        problems, bare = problems_of(work, executor)
    for name, problem in problems.items():
        echo(f"{name}: {problem}")
    if problems:
        raise InputError(f"{counted(len(problems))} of {len(opened.project.images)} cannot be run.")
    echo(f"{counted(sum(task.name not in bare for task in work.tasks))} can be run.")


@project.command("export")
def export_command(
    place: ProjectPlace,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("maskinversion_output"),
    results: Annotated[
        Path | None,
        typer.Option(
            help="Results of batch (default: maskinversion_batch next to the project; the panel "
            "uses it too)."
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"What to write, separated by commas: {', '.join(FORMATS)}. All images are in one "
            f"file or data set with {', '.join(JOINED)}; the others get a folder with a file for "
            "each image.",
        ),
    ] = ",".join(JOINED),
    accepted_only: AcceptedOnly = False,
    polygons: Polygons = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Also export images with outdated results (of other regions, words or settings).",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace files in the folder.")] = False,
) -> None:
    """Write all images with their decisions: one COCO file, one table, or any other format."""
    opened = OpenProject.read(place)
    if results is not None:
        opened = opened.with_results(results)
    _held = hold(out)  # until this function returns
    steps = export_steps(
        opened,
        out,
        split_names(formats),
        accepted_only=accepted_only,
        polygons=polygons,
        overwrite=overwrite,
        stale=stale,
        captions=captions_hash(opened),
    )
    with ProgressBar(remaining=True) as bar:
        for count, exported in steps:  # noqa: B007 - the last one is told
            bar.show("Reading images", count, len(opened.by_name))
    for name, problem in exported.left_out.items():
        say(f"{name}: {problem}")
    if exported.lacking:
        say(exported.lacking)
    say(f"Wrote {exported.written}")


def captions_hash(opened: OpenProject) -> str:
    """Return the hash of a project's captions; "" without any."""
    file = opened.captions
    column = opened.project.caption_column
    if file is None:
        return ""
    return CaptionSource(file, column=column).sha256
