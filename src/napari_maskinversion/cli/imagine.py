"""The command ``imagine``: pictures of what a region's embedding shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import InputError
from ..base.locks import hold
from ..base.progress_words import LOADING_DECODER
from ..base.targets import check_targets
from ..diffusion.generated_pictures import (
    RECORD,
    Condition,
    Imagined,
    Picture,
    PictureStep,
    file_of,
)
from ..diffusion.settings import PictureSettings
from ..images.plane_source import overview
from ..pipeline.imagining import (
    ImagineRequest,
    Plan,
    chosen_regions,
    draw,
    in_order,
    load_decoder,
    model_of,
    plan,
    queries_of,
    record_of,
    targets,
)
from ..pipeline.inputs import input_files
from ..pipeline.job import Job, open_job
from ..results.settings import RunSettings
from .console import ProgressBar, following, say
from .options import ImageFile, MaskFiles, split_names, with_settings
from .run_options import invert, load, say_unfinished


@with_settings(
    "model",
    "inversion",
    "input",
    "window",
    "planes",
    without=("only", "merge", "planes"),
    defaults={"window": "whole"},
    help={
        "model": "CLIP model, by name or a checkpoint file (default: the one that the decoder was "
        "trained on)."
    },
    only_chosen=True,
)
def imagine_command(
    image: ImageFile,
    masks: MaskFiles,
    changes: dict[str, Any],
    region: Annotated[
        list[str],
        typer.Option(
            help="Region to draw, by its label; 3,5 draws both as one query; may be repeated."
        ),
    ],
    pictures: PictureSettings,
    prompt: Annotated[
        str, typer.Option(help="Sentence to draw the region in: a photo of a sks dog on a beach.")
    ] = "",
    subject: Annotated[
        list[str] | None,
        typer.Option(
            help="Word of the prompt that the region replaces (kandinsky22); one for each region."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Folder of the decoder, in diffusers' layout (default: in the cache)."),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="Folder of the prior, for a prompt (default: in the cache)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and imagine.json.")] = Path(
        "maskinversion_pictures"
    ),
) -> None:
    """Draw what the embedding of a region shows, next to that of the whole image ([CLS]).

    A diffusion model turns the CLIP embedding into a picture, as in Figure 4 of the paper.
    """
    queries = queries_of([_ids(text) for text in region])
    device = changes.get("device", "auto")
    request = ImagineRequest(
        pictures=PictureSettings(**{**dict(pictures), "device": device}),
        prompt=prompt,
        subjects=tuple(subject or ()),
        weights=weights,
        prior=prior,
    )
    groups = request.groups(queries)
    settings = RunSettings(window="whole").changed({**changes, **chosen_regions(queries)})
    files = []
    for group in (*groups, ()):
        for seed in request.pictures.seeds:
            files.append(file_of(tuple(chain.from_iterable(group)), seed))
    read = input_files(image, masks, changes.get("model"))
    planned = [out / name for name in (*files, RECORD)]
    check_targets(planned, overwrite=False, inputs=read, replaceable=False)
    _held = hold(out)  # until this function returns
    with open_job(image, masks, settings, say) as job:
        if len(job.tasks) > 1:
            raise InputError("The regions lie on several planes; choose one by --plane.")
        if "model" not in changes:
            settings = settings.changed({"model": model_of(request)})
            job = replace(job, settings=settings)
        carried = plan(request, settings.model)
        say(carried.text)
        wanted, fingerprint = _embed(carried, job, queries)
    with following(_show, remaining=True) as bar:
        bar.show(LOADING_DECODER)
        drawn = draw(carried, load_decoder(carried), wanted)
    record = record_of(carried, settings.model, fingerprint, settings, source=job.source)
    written = Imagined(pictures=tuple(drawn), record=record).save(out)
    say(f"Wrote {', '.join(file.name for file in written)} in {out}")


def _ids(text: str) -> list[int]:
    names = split_names(text)
    if not names or not all(name.isdecimal() for name in names):
        raise InputError(f"--region takes labels of regions, such as 3 or 3,5; got {text!r}.")
    return [int(name) for name in names]


def _embed(
    carried: Plan, job: Job, queries: Sequence[tuple[int, ...]]
) -> tuple[list[Condition], str]:
    """Return what is to be drawn, and the model's fingerprint; the model is free afterwards."""
    model = load(job.settings)
    carried.folder.check_model(model.name, model.embed_dim)
    pixels = overview(job.tasks[0].source)
    results, finished = invert(model, job)
    if not finished:
        say_unfinished(results, job)
    shown = in_order(results.regions, queries)
    return targets(carried, model, shown, pixels, job.settings), model.fingerprint


def _show(bar: ProgressBar, news: PictureStep | Picture) -> None:
    if isinstance(news, PictureStep):
        bar.show(news.text, news.fraction)
