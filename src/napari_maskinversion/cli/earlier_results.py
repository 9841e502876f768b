"""Regions that an earlier ``run`` embedded, for a command that looks at embeddings alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError
from ..pipeline.job import Job
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle, compress_masks
from ..results.settings import fields_of
from .running import invert

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.results import Results


def embedded(model: Backbone, job: Job, earlier: Path | None) -> tuple[Results, bool]:
    """Return the regions of a job without labels, and whether they are all.

    Those of an earlier ``run --format npz`` are taken, if a run would compute the same now.
    """
    if earlier is None:
        return invert(model, job)
    bundle = open_archive(earlier)
    if differences := list(_differences(bundle, job, model)):
        raise InputError(
            f"{earlier} cannot be used again, it has {', '.join(differences)}; leave --results "
            "out, or write it again by run --format npz with the same options."
        )
    return bundle.results, True


def _differences(bundle: Bundle, job: Job, model: Backbone) -> Iterator[str]:
    info, settings = bundle.results.info, job.settings
    if _content(bundle.source) != _content(job.source):
        yield "another image"
    if bundle.source.get("channels", "") != job.source["channels"]:
        yield "other channels"
    if dict(bundle.masks) != compress_masks(job.tasks):
        yield "other regions"
    if info.fingerprint != model.fingerprint:
        yield f"another model ({info.model})"
    if not info.method.inverts:
        yield f"embeddings of another method ({info.method.title})"
    for setting in fields_of():
        before, now = info.settings.get(setting.key), settings.get(setting.key)
        if setting.group == "inversion" and before != now:
            yield f"{setting.name} {before} instead of {now}"
    if (info.window, info.keep_aspect) != (settings.window, settings.keep_aspect):
        yield "other windows"
    side = settings.resolution or model.working_resolution
    if any(region.window.resolution != side for region in bundle.results.regions):
        yield f"regions seen at another resolution than {side}"


def _content(source: Mapping[str, Any]) -> dict[str, Any] | None:
    """What tells an image from others: the file's name does not."""
    image = source.get("image")
    if not isinstance(image, Mapping):
        return None
    return {key: value for key, value in image.items() if key != "file"}
