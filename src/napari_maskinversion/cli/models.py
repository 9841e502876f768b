"""The ``models`` commands (list, place, fetch, check, calibrate), and the list of methods."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import InputError
from ..engine.methods.registry import TYPICAL, list_methods
from ..engine.models.specs import DEMO, MODELS, Domain
from ..results.settings import RunSettings
from .console import echo, print_table, say
from .options import with_settings
from .run_options import fetch_model, fetch_sam, load

models = typer.Typer(help="Models: list, download, check, calibrate.", no_args_is_help=True)


@models.command("list")
def list_command(
    domain: Annotated[
        Domain | None, typer.Option(help="Only models trained on images of this field.")
    ] = None,
) -> None:
    """List the models, and whether they are on this machine."""
    from ..engine.models.registry import list_models, model_state
    from ..engine.models.specs import ELSEWHERE
    from ..regions.sam.sam_checkpoints import CHECKPOINTS

    rows: list[tuple[str, ...]] = []
    for spec in list_models():
        if domain in (None, spec.domain):
            pixels = f"{spec.working_resolution} ({spec.native_resolution})"
            about = (spec.size_text, pixels, spec.license, spec.title)
            rows.append((spec.name, spec.domain, model_state(spec), *about))
    last = rows[-1]
    for sam in CHECKPOINTS.values() if domain is None else ():
        about = (sam.size_text, "1024", sam.license, f"{sam.title} (for segment)")
        rows.append((sam.name, "regions", sam.state, *about))
    print_table(
        ("name", "field", "state", "size", "input", "licence", "what"),
        rows,
        whole="name",
        last=last,
    )
    for spec in list_models() if domain is not None else ():
        if spec.domain == domain:
            echo(
                f"{spec.name}: from {spec.source}, activation {spec.activation}, tokenizer "
                f"{spec.tokenizer or 'of CLIP'}, --template {spec.prompts}"
            )
    for model in ELSEWHERE.values():
        if domain in (None, model.domain):
            echo(model.text)
    echo(
        "Input: working resolution (native) in pixels. Most other name/tag pairs of "
        "open_clip with a vision transformer and local checkpoint files work too."
    )


@models.command("where")
def where_command() -> None:
    """Print the folder of downloads and cached results, and their sizes.

    The folder goes to standard output, sizes to standard error.
    """
    from ..pipeline.cache_usage import usage

    cache = usage()
    echo(cache.folder)
    for line in cache.lines() or ["empty"]:
        say(line)


@models.command("clear")
def clear_command(
    only: Annotated[
        str | None,
        typer.Option(
            help="Only these, separated by commas: weights, texts, captions, speeds, exemplars."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete what can be downloaded or computed again; review decisions stay."""
    from ..pipeline.cache_usage import KINDS, clear, readable, usage

    names = [kind.name for kind in KINDS]
    if only is not None:
        names = []
        for name in only.split(","):
            if name.strip():
                names.append(name.strip())
    cache = usage()
    contents = []
    for kind in KINDS:
        if kind.name in names and cache.sizes[kind.name]:
            contents.append(f"{kind.title} ({readable(cache.sizes[kind.name])})")
    if not contents and set(names) <= set(cache.sizes):
        say(f"There is nothing to clear in {cache.folder}")
        return
    if contents and not yes:
        say(f"From {cache.folder} this deletes: {', '.join(contents)}.")
        if not sys.stdin.isatty():
            raise InputError(
                "Nothing was deleted: there is no terminal to ask. Add --yes to delete."
            )
        typer.confirm("Delete?", abort=True, err=True)
    done = clear(names)
    say(f"Freed {readable(done.freed)}")
    for problem in done.problems:
        say(problem)
    if done.problems:
        raise typer.Exit(1)


@models.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="Model name, or that of a SAM checkpoint (vit_b).")],
) -> None:
    """Download a model's weights. After Ctrl-C the next fetch continues."""
    from ..regions.sam.sam_checkpoints import get_checkpoint, is_checkpoint

    if is_checkpoint(name):
        path = fetch_sam(get_checkpoint(name))
    else:
        path = fetch_model(name)
    echo(f"{name} is at {path}")


@models.command("check")
@with_settings("architecture", "device")
def check_command(
    name: Annotated[str, typer.Argument(help="Model name, or a checkpoint file.")],
    settings: RunSettings,
) -> None:
    """Run a model on known images and check its answers, in about a minute."""
    from ..pipeline.model_check import check_model, describe_model, rank_regions
    from ..regions.sam.sam_checkpoints import is_checkpoint

    if is_checkpoint(name):
        raise InputError(f"{name} is a SAM, which reads no labels; check models of 'models list'.")
    model = load(settings.changed({"model": name}))
    for line in describe_model(model):
        echo(line)
    report = check_model(model)
    echo(report.table())
    if Path(name).is_dir():
        say("A folder does not tell its field: it is judged as a general model.")
    if model.spec is None or not model.spec.bundled:
        for line in rank_regions(model):
            echo(line)
        say("Places of regions are not part of the verdict.")
    if model.name in MODELS and model.name != DEMO:
        say(
            "The authors of this package have not run the real weights of this model; please tell "
            "them what you see."
        )
    if not report.ok:
        raise typer.Exit(1)


@models.command("calibrate")
def calibrate_command(
    name: Annotated[str, typer.Argument(help="Name of the model, as the results have it.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Reviewed results: results.npz that the panel saved, and decision files "
            "(IMAGE.maskinversion.jsonl) of the same images."
        ),
    ],
) -> None:
    """Set the limits of this model's flags, from regions that you have reviewed.

    Words with a lower margin are doubtful, heatmaps with less overlap do not fit. The limits flag
    most wrong answers, and at most 15 % of the right ones. run and the panel use them from then on.
    """
    from ..results.calibrations import keep_calibration
    from ..review.reporting import calibrate_from_files

    calibration, results = calibrate_from_files(name, files)
    info = results.info
    path = keep_calibration(info.fingerprint, info.settings, calibration)
    limits = {"least margin": calibration.margin, "least overlap": calibration.overlap}
    texts = []
    for title, value in limits.items():
        if value is not None:
            texts.append(f"{title} {value:.4f}")
    echo(", ".join(texts))
    say(f"Of {calibration.right} right answers, {calibration.right_kept:.0%} are not flagged.")
    if calibration.wrong_flagged is None:
        say("No answer was wrong: how many wrong ones are flagged is not known.")
    else:
        say(f"Of {calibration.wrong} wrong answers, {calibration.wrong_flagged:.0%} are flagged.")
    say(f"Kept in {path}")


def methods_command() -> None:
    """List the methods to embed a region: what they do and what they cost."""
    cost = f"{TYPICAL} regions cost, passes"
    rows = []
    for method in list_methods():
        rows.append(
            (
                method.name,
                f"{method.title}: {method.about}",
                f"{method.image + TYPICAL * method.region:.0f}",
            )
        )
    about = "what the model sees, and where the embedding comes from"
    print_table(("--method", about, cost), rows, right=(cost,))
    say("Join two of them by + to average them, for example maskinversion+crop.")
