"""From the viewer and the panel's choices to the input of a run; on the main thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import InputError
from ...base.units import Units
from ...images.windows import WindowConfig
from ...language.labels.vocabulary import Vocabulary
from ...results.settings import RunSettings
from ..explore.caption_banks import BankChoice
from ..inputs.input_widget import InputWidget
from ..inputs.scope_widget import ScopeWidget
from ..layers.coordinates import ViewPoint
from ..layers.layers import is_ours
from ..layers.pictures import Picture, copy_picture
from ..layers.tasks import RunInput, copy_regions
from ..model.model_widget import ModelWidget
from ..vocabulary.vocabulary_widget import VocabularyWidget
from ..workers.model_store import ModelStore
from .estimator import Work, estimation
from .request import Request


def make_request(
    viewer: Any,
    chosen: InputWidget,
    model: ModelWidget,
    vocabulary: VocabularyWidget,
    captions: BankChoice | None = None,
    *,
    picture: Picture | None = None,
) -> Request:
    """Take everything that a run needs from the viewer and the parts of the panel.

    Labels may be missing where there are captions. ``picture`` is a copy of the image as it is
    shown now, where somebody has one.

    Raises
    ------
    MaskInversionError
        If something is missing, or cannot be run on; says what.
    """
    check_layers(chosen.image.layer, chosen.regions.layer)
    words = None if captions is not None and vocabulary.empty else vocabulary.vocabulary()
    request = _request(viewer, chosen, model, words, picture)
    settings = request.settings.changed({"unsure": vocabulary.limits.uncertainty})
    return replace(request, captions=captions, settings=settings)


def find_request(
    viewer: Any, chosen: InputWidget, model: ModelWidget, alpha: float, whole: bool
) -> tuple[Request, Any]:
    """Take what finding regions by words needs: a run without labels, and its image layer.

    Parameters
    ----------
    viewer : napari.Viewer
    chosen : InputWidget
    model : ModelWidget
    alpha : float
        Instead of the model part's.
    whole : bool
        The model sees the whole image with each region, whatever windows are chosen.

    Raises
    ------
    MaskInversionError
        As `make_request`.
    """
    check_layers(chosen.image.layer, chosen.regions.layer)
    request = _request(viewer, chosen, model, None)
    # Words refer to places in the image, so the method is always MaskInversion.
    changes: dict[str, Any] = {"inversion.alpha": alpha, "method": None}
    if whole:
        changes["window"] = "whole"
    settings = request.settings.changed(changes)
    return replace(request, settings=settings, forming=False), chosen.image.layer


def _request(
    viewer: Any,
    chosen: InputWidget,
    model: ModelWidget,
    words: Vocabulary | None,
    picture: Picture | None = None,
) -> Request:
    image, regions = chosen.image.layer, chosen.regions.layer
    if model.needs_fetch():
        raise InputError(
            f"{model.spec.name} is not on this machine yet; press Fetch under Model, "
            "or choose the bundled model 'demo'."
        )
    given = prepare(viewer, image, regions, chosen.scope, picture=picture)
    return Request(
        input=given,
        vocabulary=words,
        settings=RunSettings().changed(
            {
                **model.values(),
                "method": model.method.chosen(),
                "window": chosen.scope.window(),
            }
        ),
        units=units_of(image, given.finder.axes),
        forming=chosen.scope.live.isChecked(),
    )


def estimate_of(
    viewer: Any, chosen: InputWidget, model: ModelWidget, store: ModelStore
) -> Work | None:
    """Give the work that says how long a run would take; None where there is nothing to run on.

    Raises
    ------
    InputError
        If what is chosen cannot be run on.
    """
    image, regions = chosen.image.layer, chosen.regions.layer
    if image is None or regions is None:
        return None
    given = prepare(viewer, image, regions, chosen.scope, snapshot=False)
    return estimation(
        given,
        model.spec,
        model.config(),
        chosen.scope.window(),
        store,
        device=model.device.currentText(),
        at_once=model.values()["chunk_size"],
        method=model.method.method,
    )


def find_estimate(
    viewer: Any,
    chosen: InputWidget,
    model: ModelWidget,
    store: ModelStore,
    alpha: float,
    whole: bool,
) -> Work | None:
    """Do the same for finding by words; see `find_request`."""
    image, regions = chosen.image.layer, chosen.regions.layer
    if image is None or regions is None:
        return None
    given = prepare(viewer, image, regions, chosen.scope, snapshot=False)
    work = estimation(
        given,
        model.spec,
        replace(model.config(), alpha=alpha),
        WindowConfig(mode="whole") if whole else chosen.scope.window(),
        store,
        device=model.device.currentText(),
        at_once=model.values()["chunk_size"],
    )

    def said() -> str:
        text = work()
        return text and f"Where such embeddings are not there yet: {text}"

    return said


def record(request: Request, image: Any, regions: Any) -> dict[str, Any]:
    """Say what a run was made from, for the exported record."""
    return {
        "image_layer": image.name,
        "regions_layer": regions.name,
        "plane": request.input.finder.description,
        "channels": "this layer" if request.input.picture.shown is None else "as displayed",
    }


def prepare(
    viewer: Any,
    image: Any,
    regions: Any,
    scope: ScopeWidget,
    *,
    snapshot: bool = True,
    picture: Picture | None = None,
) -> RunInput:
    """Take what a run needs of the layers.

    Parameters
    ----------
    viewer : napari.Viewer
    image, regions : napari layers or None
    scope : ScopeWidget
    snapshot : bool
        Copy arrays in memory, so that edits made later do not count.
    picture : Picture, optional
        Used instead of a new copy of the image.

    Raises
    ------
    InputError
        If there is no image or no regions, or the two do not go together.
    """
    check_layers(image, regions)
    view = ViewPoint.of(viewer)
    planes, only = scope.planes_chosen(), scope.only()
    shown_only = planes == "shown"
    picture = picture or copy_picture(
        image,
        view,
        channels=scope.channels_chosen(),
        others=image_layers(viewer),
        background=background_of(viewer),
        shown_only=shown_only,
        snapshot=snapshot,
    )
    return RunInput(
        view=view,
        picture=picture,
        regions=copy_regions(regions, view, shown_only=shown_only, snapshot=snapshot),
        planes=planes,
        only=only,
        merge=scope.merged(),
    )


def check_layers(image: Any, regions: Any) -> None:
    """Refuse to go on without an image or regions.

    Raises
    ------
    InputError
    """
    if image is None:
        raise InputError("There is no image to look at; open one first.")
    if regions is None:
        raise InputError("There are no regions; add a Labels or Shapes layer and draw some.")


def image_layers(viewer: Any) -> list[Any]:
    """Give the user's image layers, the lowest one first."""
    from napari.layers import Image

    return [layer for layer in viewer.layers if isinstance(layer, Image) and not is_ours(layer)]


def background_of(viewer: Any) -> tuple[float, float, float]:
    """Colour of the canvas; black before napari 0.9 says."""
    color = getattr(getattr(viewer, "canvas", None), "background_color", None)
    if color is None:
        return (0.0, 0.0, 0.0)
    red, green, blue = (float(value) for value in tuple(color)[:3])
    return red, green, blue


def units_of(image: Any, axes: tuple[int, int]) -> Units | None:
    """Size of an image's pixels, along two of its axes, in its own unit; None where that is pixels.

    The sizes are those of a pixel as it lies in the world, after rotation, shear and affine. Under
    shear, where a pixel is no rectangle, they are scaled so that areas are right.
    """
    units = tuple(getattr(image, "units", None) or ())
    if len(units) != image.ndim:
        return None
    origin = np.asarray(image.data_to_world(np.zeros(image.ndim)))
    steps = np.eye(image.ndim)[list(axes)]
    sides = np.array([np.asarray(image.data_to_world(step)) - origin for step in steps])
    lengths = np.linalg.norm(sides, axis=1)
    area = float(np.sqrt(max(np.linalg.det(sides @ sides.T), 0.0)))
    if area <= 0:
        return None
    lengths = lengths * np.sqrt(area / float(np.prod(lengths)))
    return Units.of_layer(list(lengths), [units[axis] for axis in axes])
