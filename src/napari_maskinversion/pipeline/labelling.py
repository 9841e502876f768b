"""Label the regions of an image in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..base.errors import ConfigError
from ..base.progress import listening
from ..base.regions import Regions, as_array
from ..base.units import Units, short_unit
from ..engine.settings import InversionConfig
from ..images.channels import as_source
from ..images.plane_source import PlaneSource
from ..language.captions.bank import CaptionBank
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import Vocabulary
from ..regions.region_reading import renumber_black_and_white
from ..results.results import Results
from ..results.settings import RunSettings
from .caption_ranking import CaptionRequest, generate_captions
from .job import Job
from .run import PlaneTask, check_tasks
from .run_progress import Progress, RegionChunk

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


def label_regions(
    image: npt.ArrayLike | PlaneSource,
    regions: npt.ArrayLike | Regions,
    labels: str | Sequence[str] | Vocabulary | None,
    *,
    model: Backbone | str | Path | None = None,
    templates: Sequence[str] = (),
    bank: CaptionBank | None = None,
    captions: str | CaptionRequest | None = None,
    settings: RunSettings | InversionConfig | None = None,
    on_progress: Callable[[Progress | RegionChunk], object] | None = None,
    **changes: Any,
) -> Results:
    """Embed, label and explain the regions of an image, as ``napari-maskinversion run`` does.

    Small regions of large images are seen in windows of their own, labels are put into prompts,
    and doubtful answers are flagged.

    Parameters
    ----------
    image : array_like, shape (H, W, 3) or (H, W)
        uint8, uint16, bool, or floats in 0..1; see `read_image`.
    regions : array_like or Regions
        A label image (H, W) of whole numbers, a single mask (H, W) of bools or floats, or masks
        (N, H, W), which are numbered from 1. Torch tensors on any device work too.
    labels : str, sequence of str, Vocabulary, or None
        Names, or what ``--labels`` takes: ``"dog, cat"``, a file, ``"preset:coco"``. None takes the
        names of the regions, which `read_regions` reads; if they have none, it computes embeddings
        and maps without labels.
    model : Backbone, str or Path, optional
        A loaded model, or what `load_model` takes; default: that of the settings, "demo".
    templates : sequence of str
        Names of sets of prompts ("photo", "aerial", "microscopy", ...), and sentences with one
        ``{}``. By default those of the labels, else "photo".
    bank : CaptionBank, optional
        Adds the best captions to each region.
    captions : str or CaptionRequest, optional
        Writes a sentence about each region: the name of a decoder ("demo", "clipcap-coco", ...), or
        a request with its search, seed and norm.
    settings : RunSettings or InversionConfig, optional
        An `InversionConfig` alone leaves the other settings at their defaults.
    on_progress : callable, optional
        Called with each `Progress` and `RegionChunk`. If it raises, the run stops.
    **changes
        Fields of `RunSettings` and `InversionConfig` that differ from ``settings``:
        ``window="whole"``, ``alpha=5``, ``method="crop"``.

    Returns
    -------
    Results
        In the order of the regions.

    Raises
    ------
    MaskInversionError
        If image, regions, labels or settings cannot be used; before the model is loaded.

    Examples
    --------
    >>> results = label_regions(rgb, masks, labels=["cat", "dog"])
    >>> results.to_frame()[["region", "suggestion", "similarity"]]
    >>> label_regions(rgb, masks, None, captions="demo").to_frame()["generated_caption"]
    """
    settings = RunSettings.of(settings, **changes)
    if settings.planes or settings.plane or settings.channels:
        raise ConfigError(
            "label_regions takes one plane: leave planes, plane and channels out, and pass the "
            "pixels of that plane."
        )
    source = as_source(image)
    chosen = _regions(regions)
    if settings.only_ids is not None:
        chosen = chosen.only(settings.only_ids)
    if settings.merge_ids:
        chosen = chosen.merged(settings.merge_ids)
    if labels is None:
        labels = tuple(dict.fromkeys(region.name for region in chosen if region.name)) or None
    if labels is None:
        vocabulary = None
    else:
        vocabulary = vocabulary_of(labels, templates)
    size = settings.pixel_size
    if size is None:
        units = None
    else:
        units = Units(pixel=(size, size), unit=short_unit(settings.unit))
    job = Job(tasks=[PlaneTask(source=source, regions=chosen)], settings=settings, units=units)
    check_tasks(job.tasks)
    settings.method.check()
    if isinstance(captions, str):
        captions = CaptionRequest(decoder=captions)
    if captions is not None:
        captions.check(_name(model, settings), settings.method)
    loaded = loaded_model(model, settings, changes)
    decoder = None
    if captions is not None:
        decoder = captions.load(loaded, loaded.device)
    with listening(on_progress):
        results = job.run(loaded, vocabulary, bank)
    if decoder is None:
        return results
    return generate_captions(results, decoder)


def _regions(regions: npt.ArrayLike | Regions) -> Regions:
    if isinstance(regions, Regions):
        return regions
    array = as_array(regions, "Masks")
    if array.ndim == 2 and array.dtype.kind in "iu":
        return renumber_black_and_white(Regions.from_labels(array))
    count = 1
    if array.ndim == 3:
        count = len(array)
    return Regions.from_masks(array, ids=range(1, count + 1))


def _name(model: Backbone | str | Path | None, settings: RunSettings) -> str:
    if model is None:
        return settings.model
    if isinstance(model, str | Path):
        return str(model)
    return model.name


def loaded_model(
    model: Backbone | str | Path | None, settings: RunSettings, changes: Mapping[str, Any]
) -> Backbone:
    """Return a model, loaded unless it is; the settings' own for None."""
    from ..engine.models.backbone import Backbone
    from ..engine.models.loading import load_where_it_fits

    if not isinstance(model, Backbone):
        name = settings.model if model is None else str(model)
        architecture = settings.architecture
        device = settings.device
        return load_where_it_fits(name, device=device, architecture=architecture).model
    for name in ("device", "architecture"):
        if changes.get(name) is not None:
            raise ConfigError(
                f"The model is loaded already; {name}={changes[name]!r} is for a model's name."
            )
    return model
