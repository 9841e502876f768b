"""The command ``imagine``: pictures of what a region's embedding shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ...base import progress_words as words
from ...base.errors import InputError
from ...base.locks import hold
from ...base.targets import check_targets
from ...diffusion.decoders import DECODERS
from ...diffusion.pictures import RECORD, Imagined, Picture, PictureStep, file_of
from ...diffusion.settings import Norm, PictureSettings, Precision
from ...images.plane_source import overview
from ...pipeline.imagining import (
    ImagineRequest,
    Plan,
    Target,
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
from ...pipeline.inputs import input_files, open_inputs, origin
from ...pipeline.run import check_tasks
from ...results.settings import RunSettings
from ..console import INTERRUPTED, ProgressBar, say
from ..loading import load
from ..options import ImageFile, MaskFiles, split_names, with_settings
from ..running import invert, say_unfinished


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
    decoder: Annotated[
        str, typer.Option(help="Diffusion model.", metavar="|".join(DECODERS))
    ] = "kandinsky22",
    prompt: Annotated[
        str, typer.Option(help="Sentence to draw the region in: a photo of a sks dog on a beach.")
    ] = "",
    subject: Annotated[
        list[str] | None,
        typer.Option(
            help="Word of the prompt that the region replaces (kandinsky22); one for each region."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and imagine.json.")] = Path(
        "maskinversion_pictures"
    ),
    seed: Annotated[
        int, typer.Option(help="Seed of the first picture; the next ones count up from it.")
    ] = 0,
    pictures: Annotated[int, typer.Option(help="Pictures of each region, and of [CLS].")] = 1,
    draw_steps: Annotated[
        int | None,
        typer.Option(help="Steps of a picture (default: 50; unclip: 20)."),
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(help="Scale of the guidance (default: 7.5; unclip: 10); 1 turns it off."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(help="Side of a picture in pixels (default: 512; unclip: 768)."),
    ] = None,
    norm: Annotated[
        str,
        typer.Option(
            metavar="optimised|cls",
            help="The embedding as optimised, or scaled to the length of [CLS].",
        ),
    ] = "optimised",
    dtype: Annotated[
        str,
        typer.Option(
            metavar="auto|float32|float16|bfloat16",
            help="Precision of the decoder; auto: float16 on CUDA, else float32.",
        ),
    ] = "auto",
    weights: Annotated[
        Path | None,
        typer.Option(help="Folder of the decoder, in diffusers' layout (default: in the cache)."),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="Folder of the prior, for a prompt (default: in the cache)."),
    ] = None,
) -> None:
    """Draw what the embedding of a region shows, next to that of the whole image ([CLS]).

    A diffusion model turns the CLIP embedding into a picture, as in Figure 4 of the paper.
    """
    queries = queries_of([_ids(text) for text in region])
    request = ImagineRequest(
        pictures=PictureSettings(
            decoder=decoder,
            seed=seed,
            steps=draw_steps,
            guidance=guidance,
            size=size,
            pictures=pictures,
            norm=cast("Norm", norm),
            device=changes.get("device", "auto"),
            dtype=cast("Precision", dtype),
        ),
        prompt=prompt,
        subjects=tuple(subject or ()),
        weights=weights,
        prior=prior,
    )
    groups = request.groups(queries)
    settings = RunSettings(window="whole").changed({**changes, **chosen_regions(queries)})
    files = [
        file_of(tuple(name for query in group for name in query), one)
        for group in (*groups, ())
        for one in request.pictures.seeds
    ]
    read = input_files(image, masks, changes.get("model"))
    written = [out / name for name in (*files, RECORD)]
    check_targets(written, overwrite=False, inputs=read, replaceable=False)
    _held = hold(out)  # until this function returns
    inputs = open_inputs(image, masks, settings, say)
    check_tasks(inputs.tasks)
    if len(inputs.tasks) > 1:
        raise InputError("The regions lie on several planes; choose one by --plane.")
    if "model" not in changes:
        settings = settings.changed({"model": model_of(request)})
    carried = plan(request, settings.model)
    source = origin(image, masks, settings, inputs.stack)
    say(carried.text)
    wanted, fingerprint = _embed(carried, inputs, queries, settings)
    made = _draw(carried, wanted)
    record = record_of(carried, settings.model, fingerprint, settings, source=source)
    written = Imagined(pictures=tuple(made), record=record).save(out)
    say(f"Wrote {', '.join(file.name for file in written)} in {out}")


def _ids(text: str) -> list[int]:
    names = split_names(text)
    if not names or not all(name.isdecimal() for name in names):
        raise InputError(f"--region takes labels of regions, such as 3 or 3,5; got {text!r}.")
    return [int(name) for name in names]


def _embed(
    carried: Plan, inputs: Any, queries: Sequence[tuple[int, ...]], settings: RunSettings
) -> tuple[list[Target], str]:
    """Return what is to be drawn, and the model's fingerprint; the model is free afterwards."""
    model = load(settings.model, settings.architecture, settings.device)
    carried.folder.check_model(model.name, model.embed_dim)
    pixels = overview(inputs.tasks[0].source)
    results, finished = invert(model, inputs, None, settings)
    if not finished:
        say_unfinished(results, inputs)
    shown = in_order(results.regions, queries)
    return targets(carried, model, shown, pixels, settings), model.fingerprint


def _draw(carried: Plan, wanted: Sequence[Target]) -> list[Picture]:
    with ProgressBar(remaining=True) as bar:

        def show(news: PictureStep | Picture) -> None:
            if isinstance(news, PictureStep):
                bar.show(news.text, news.fraction)

        try:
            bar.show(words.LOADING_DECODER)
            return draw(carried, load_decoder(carried), wanted, show)
        except KeyboardInterrupt:
            say("Stopped; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
