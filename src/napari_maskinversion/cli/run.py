"""The command ``run``: from an image and its regions to tables, heatmaps and files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..base.errors import InputError
from ..base.wording import listed
from ..language.labels.label import TEMPLATES
from ..library.library import Library
from ..pipeline.job import Job, open_job
from ..regions.annotations.annotation_reading import is_annotations
from ..results.agreement import agreement_of
from ..results.export.heatmaps import check_room, pages_are_planes
from ..results.printing import print_results
from ..results.settings import GROUPS, RunSettings
from .captions import Words, bank_of
from .console import say
from .library import Into, added, check_library
from .options import (
    ImageFile,
    MaskFiles,
    Output,
    with_paper,
    with_settings,
)
from .run_options import invert, load, say_unfinished

_LISTED: Final = 8  # names in a text
LARGEST_INPUT: Final = (1024, 1024)  # pixels of heatmaps that are kept at the model's input size


@with_paper(template=["photo"])
@with_settings(*GROUPS)
def run_command(
    image: ImageFile,
    masks: MaskFiles,
    settings: RunSettings,
    words: Words,
    output: Output,
    into: Into = None,
) -> None:
    """Embed, label and explain the regions of an image; write files and print a table.

    The files hold suggestions; the panel exports what you decided in a review.
    """
    if not words.are_named and not is_annotations(masks):
        raise InputError("Add --labels dog,cat or --captions FILE, or both.")
    vocabulary = words.vocabulary(settings.threshold)
    sentences = words.sentences()
    read = (image, masks, words.labels, words.classifier, words.captions, settings.model)
    _held = output.begin(*read, settings.method.weights)  # until this function returns
    check_library(into, output.out)
    with open_job(image, masks, settings, say) as job:
        if vocabulary is None:
            vocabulary = job.named(words.template or ())
            _say_names(job)
        if vocabulary is None and sentences is None:
            raise InputError(
                f"{masks} has no names of regions; add --labels dog,cat or --captions FILE, or "
                "both."
            )
        if "tif" in output.chosen and settings.method.inverts:
            _check_room(output.out, job)
        model = load(job.settings)
        field = "photo" if model.spec is None else model.spec.prompts
        if field != "photo" and vocabulary and vocabulary.templates == TEMPLATES["photo"]:
            say(f"{model.name} has prompts of its field: --template {field}.")
        if sentences is None:
            bank = None
        else:
            bank = bank_of(sentences, model)
        results, finished = invert(model, job, vocabulary, bank)
        bundle = job.bundle(results)
        written = output.write(bundle)
        print_results(results)
        agreement = agreement_of(results)
        compared = "" if agreement is None else agreement.text
        learned = None if vocabulary is None else vocabulary.learned
        about = "" if learned is None else learned.text
        for note in (about, compared, settings.method.lacks, results.info.flags_note):
            if note:
                say(note)
        say(written)
        if not finished:
            say_unfinished(results, job)
        if into is not None:
            planes = {task.position: task.source for task in job.tasks}
            opened = Library.open(into, create=True)
            say(added(opened, opened.add(bundle, image=image, planes=planes)))


def _say_names(job: Job) -> None:
    if job.names:
        say(f"Labels: the names in {job.regions} ({listed(job.names, _LISTED)}).")


def _check_room(out: Path, job: Job) -> None:
    shape = job.tasks[0].regions.shape
    regions = sum(len(task.regions) for task in job.tasks)
    planes = pages_are_planes(shape, regions, whole=job.settings.window.mode == "whole")
    check_room(out, regions, shape if planes else LARGEST_INPUT)
