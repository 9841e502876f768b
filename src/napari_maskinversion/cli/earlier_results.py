"""Regions that an earlier ``run`` embedded, for a command that looks at embeddings alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError
from ..pipeline.inputs import Inputs
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle, compress_masks
from ..results.settings import RunSettings

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.results import Results


def embedded_before(
    path: Path,
    inputs: Inputs,
    source: Mapping[str, Any],
    model: Backbone,
    settings: RunSettings,
) -> Results:
    """Read results that ``run --format npz`` wrote, if a run would compute the same now."""
    bundle = open_archive(path)
    side = settings.resolution or model.working_resolution
    differences = list(_differences(bundle, inputs, source, model.fingerprint, settings))
    if any(region.window.resolution != side for region in bundle.results.regions):
        differences.append(f"regions seen at another resolution than {side}")
    if differences:
        raise InputError(
            f"{path} cannot be used again, it has {', '.join(differences)}; leave --results out, "
            "or write it again by run --format npz with the same options."
        )
    return bundle.results


def _differences(
    bundle: Bundle,
    inputs: Inputs,
    source: Mapping[str, Any],
    fingerprint: str,
    settings: RunSettings,
) -> Iterator[str]:
    info = bundle.results.info
    if _content(bundle.source) != _content(source):
        yield "another image"
    if bundle.source.get("channels", "") != source["channels"]:
        yield "other channels"
    if dict(bundle.masks) != compress_masks(inputs.tasks):
        yield "other regions"
    if info.fingerprint != fingerprint:
        yield f"another model ({info.model})"
    if not info.method.inverts:
        yield f"embeddings of another method ({info.method.title})"
    now = dict(settings.inversion)
    for name, value in info.config:
        if value != now[name]:
            yield f"{name} {value} instead of {now[name]}"
    if (info.window, info.keep_aspect) != (settings.window, settings.keep_aspect):
        yield "other windows"


def _content(source: Mapping[str, Any]) -> dict[str, Any] | None:
    """What tells an image from others: the file's name does not."""
    image = source.get("image")
    if not isinstance(image, Mapping):
        return None
    return {key: value for key, value in image.items() if key != "file"}
