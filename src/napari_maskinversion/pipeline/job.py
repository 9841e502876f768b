"""One job: the regions of an image, embedded and labelled, with all that is written about them.

Command line, batches, panel and the calls from Python all do it in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.identity import ImageIdentity, identify_image
from ..base.regions import Regions
from ..base.units import Units
from ..language.captions.bank import CaptionBank
from ..language.labels.vocabulary import Vocabulary
from ..regions.annotations.annotation import Annotations
from ..regions.annotations.annotation_reading import read_annotations
from ..results.export.bundle import Bundle, Masks, compress_masks, inputs_recipe
from ..results.recipe import Recipe, weights_sha256
from ..results.results import Results
from ..results.settings import RunSettings
from . import run as pipeline
from .inputs import channels_of, open_inputs, open_stack, origin, units_of, vocabulary_in
from .run import PlaneTask, check_tasks

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class Job:
    """Planes with their regions, and how they are to be run."""

    tasks: Sequence[PlaneTask]
    settings: RunSettings
    units: Units | None = None
    notes: str = ""  # Regions that were changed or left out
    names: Mapping[str, str] = field(default_factory=dict)  # In the file of regions, see `Inputs`
    regions: Path = Path()  # This file
    source: Mapping[str, Any] = field(default_factory=dict)  # See `origin`
    image: ImageIdentity = field(default_factory=ImageIdentity)

    def named(self, templates: Sequence[str]) -> Vocabulary | None:
        """Return the names in the file of regions as labels; None without any."""
        return vocabulary_in(self.regions, self.names, templates, self.settings.threshold)

    def recipe(self, model: Backbone) -> Recipe:
        """Return what results are made from: image and regions, and the space of embeddings."""
        settings = self.settings.changed({"model": model.name})
        inputs = inputs_recipe(self.source, compress_masks(self.tasks))
        method_sha256 = weights_sha256(settings.method)
        return inputs.joined(
            Recipe.of_space(settings, model.fingerprint, method_sha256=method_sha256)
        )

    def run(
        self,
        model: Backbone,
        words: Vocabulary | None = None,
        captions: CaptionBank | None = None,
    ) -> Results:
        """Embed and label the regions; a listener hears of progress and finished regions."""
        settings = self.settings
        units = self.units
        return pipeline.run_planes(model, self.tasks, words, settings, units=units, bank=captions)

    def bundle(self, results: Results, masks: Masks | None = None) -> Bundle:
        """Return results of this job with all that is written about them."""
        masks = compress_masks(self.tasks) if masks is None else masks
        return Bundle(results=results, masks=masks, source=self.source, image=self.image)


@contextmanager
def open_job(
    image: Path,
    regions: Path,
    settings: RunSettings,
    on_note: Callable[[str], object] = lambda _: None,
    read: Callable[..., Annotations] = read_annotations,
) -> Generator[Job, None, None]:
    """Open the files of a job for the time of the block, and refuse what cannot be run on.

    They are described now: they may be gone after the run. For ``on_note`` and ``read`` see
    `open_inputs`.
    """
    settings.method.check()
    inputs = open_inputs(image, regions, settings, on_note, read)
    with inputs.stack as stack:
        check_tasks(inputs.tasks)
        yield Job(
            tasks=inputs.tasks,
            settings=settings,
            units=inputs.units,
            notes=inputs.notes,
            names=inputs.names,
            regions=regions,
            source=origin(image, regions, settings, stack, inputs.coco_facts),
            image=identify_image(image.name, stack.levels[0]),
        )


@contextmanager
def open_plane(
    image: Path, settings: RunSettings, on_note: Callable[[str], object] = lambda _: None
) -> Generator[Job, None, None]:
    """Open an image without regions for the time of the block; the job's plane has none yet."""
    settings.method.check()
    with open_stack(image, settings, on_note) as stack:
        place = stack.position(settings.plane)
        source = stack.source(place, channels_of(settings))
        position = tuple((axis, place[axis]) for axis in stack.plane_axes if axis in place)
        source.check()
        yield Job(
            tasks=[PlaneTask(source=source, regions=Regions(source.shape, ()), position=position)],
            settings=settings,
            units=units_of(stack, settings),
            source=origin(image, None, settings, stack),
            image=identify_image(image.name, stack.levels[0]),
        )


def run_job(
    job: Job,
    model: Backbone,
    words: Vocabulary | None = None,
    captions: CaptionBank | None = None,
) -> Bundle:
    """Do a job to its end."""
    return job.bundle(job.run(model, words, captions))
