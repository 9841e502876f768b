"""The ``project`` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...base.errors import InputError
from ...base.locks import hold
from ...base.targets import check_targets
from ...batch.exporting import FILES, export_steps
from ...batch.opened import OpenProject, edit
from ...batch.project import (
    Project,
    ProjectImage,
    captions_of,
    check_words,
    project_file,
    read_project,
    relative,
    states,
    stored_labels,
    stored_settings,
    write_project,
)
from ...batch.running import listed, plan
from ...pipeline.inputs import input_files
from ...results.settings import RunSettings
from ..captions.banks import CaptionSource
from ..console import ProgressBar, echo, say
from ..options import Polygons, split_names, template_option, with_paper, with_settings
from .checking import problems_of
from .images import (
    CaptionColumn,
    Captions,
    Images,
    Labels,
    Positions,
    ProjectPlace,
    RegionFiles,
    Table,
    counted,
    pairs_of,
    project_images,
)

project = typer.Typer(help="Projects: many images in one file.", no_args_is_help=True)


@project.command("new")
@with_paper(template=["photo"])
@with_settings(
    "model", "method", "inversion", "input", "window", "planes", "units", "labels", "uncertainty"
)
def new_command(
    place: ProjectPlace,
    settings: RunSettings,
    images: Images = None,
    regions: RegionFiles = None,
    table: Table = None,
    positions: Positions = False,
    labels: Labels = None,
    template: Annotated[
        list[str] | None, template_option("those of the file or preset, else photo")
    ] = None,
    captions: Captions = None,
    caption_column: CaptionColumn = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a project.")] = False,
) -> None:
    """Make a project: pair images with regions, and keep words and settings."""
    file = project_file(place)
    pairs = pairs_of(images, regions, table, positions=positions)
    inputs = [path for one in pairs.pairs for path in (one.image, one.regions) if path]
    inputs += input_files(labels, captions, table, settings.model)
    check_targets([file], overwrite=overwrite, inputs=inputs)
    folder = file.parent
    made = Project(
        labels=stored_labels(labels, folder),
        templates=tuple(template or ()),
        captions=None if captions is None else relative(captions, folder),
        caption_column=caption_column,
        settings=stored_settings(settings, folder),
        images=tuple(project_images(pairs, folder)),
    )
    if captions is not None:
        CaptionSource(captions, column=caption_column)  # refuses what are no captions
    made.vocabulary(folder, settings.threshold)  # refuses what are no labels
    folder.mkdir(parents=True, exist_ok=True)
    write_project(made, file)
    say(f"Wrote {counted(len(made.images))} in {file}")


@project.command("add")
def add_command(
    place: ProjectPlace,
    images: Images = None,
    regions: RegionFiles = None,
    table: Table = None,
    positions: Positions = False,
) -> None:
    """Add images to a project; images already in it get these regions if they had none."""
    file = project_file(place)
    read_project(place)  # refused before images are looked for
    pairs = pairs_of(images, regions, table, positions=positions)
    new = tuple(project_images(pairs, file.parent))
    by_place = {_place(image): image for image in new}
    old: tuple[ProjectImage, ...] = ()

    def add(content: Project) -> Project:
        nonlocal old
        old = content.images
        present = {_place(image) for image in old}
        added = tuple(image for image in new if _place(image) not in present)
        kept = tuple(_with_regions(image, by_place) for image in old)
        return Project(**{**dict(content), "images": kept + added})

    now = edit(file, add).images
    filled = sum(one != before for one, before in zip(now, old, strict=False))
    what = f"regions of {counted(filled)}" if filled else ""
    if len(now) > len(old) or not filled:
        what = counted(len(now) - len(old)) + f" and {what}" * bool(what)
    say(f"Added {what} to {file}, which has {counted(len(now))} now.")


def _place(image: ProjectImage) -> tuple[str, int | None]:
    return image.image, image.series


def _with_regions(
    image: ProjectImage, new: dict[tuple[str, int | None], ProjectImage]
) -> ProjectImage:
    if image.regions is not None or _place(image) not in new:
        return image
    return ProjectImage(**{**dict(image), "regions": new[_place(image)].regions})


@project.command("status")
def status_command(
    place: ProjectPlace,
    out: Annotated[
        Path | None, typer.Option(help="Also show the results of a batch in this folder.")
    ] = None,
) -> None:
    """Show how many images there are and how many are done."""
    content = read_project(place)
    number = states(content)
    bare = sum(image.regions is None for image in content.images)
    words = [counted(len(content.images)), f"{number['done']} done", f"{number['skip']} to skip"]
    echo(", ".join([*words, f"{bare} without regions"]))
    if out is not None:
        folder = project_file(place).parent
        work = plan(content, folder, out, captions=captions_hash(content, folder))
        line = f"{out}: {counted(len(work.done))} computed, {len(work.tasks)} to compute"
        echo(line)
        if work.stale_text:
            echo(work.stale_text)
        if work.damaged:
            echo(f"Files of these results changed or are gone: {listed(work.damaged)}")
        if work.others:
            echo(f"Results of images that are not in the project: {listed(work.others)}")


@project.command("check")
def check_command(place: ProjectPlace) -> None:
    """Read all images and regions, and list those that a batch cannot run."""
    content, file = read_project(place), project_file(place)
    check_words(content, file)
    captions = captions_hash(content, file.parent)
    work = plan(content, file.parent, file.parent, captions=captions)
    problems = problems_of(work)
    for name, problem in problems.items():
        echo(f"{name}: {problem}")
    if problems:
        raise InputError(f"{counted(len(problems))} of {len(content.images)} cannot be run.")
    echo(f"{counted(len(work.tasks))} can be run.")


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
        str, typer.Option("--format", help=f"Separated by commas: {', '.join(FILES)}.")
    ] = ",".join(FILES),
    accepted_only: Annotated[
        bool, typer.Option("--accepted-only", help="Only regions that were accepted in a review.")
    ] = False,
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
    """Write all images with their decisions: one COCO file, one table, one Parquet data set."""
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
        captions=captions_hash(opened.project, opened.folder),
    )
    with ProgressBar(remaining=True) as bar:
        for count, exported in steps:  # noqa: B007 - the last one is told
            bar.show("Reading images", count, len(opened.by_name))
    for name, problem in exported.left_out.items():
        say(f"{name}: {problem}")
    say(f"Wrote {exported.written}")


def captions_hash(content: Project, folder: Path) -> str:
    """Return the hash of a project's captions; "" without any."""
    file = captions_of(content, folder)
    return "" if file is None else CaptionSource(file, column=content.caption_column).sha256
