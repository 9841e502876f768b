"""Makes the input of a run from the viewer and the panel, on the GUI thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import InputError
from ...base.units import Units
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
    """Copy everything that a run needs from the viewer and the panel.

    Labels are optional with captions. ``picture`` is a copy of the image as it is displayed now,
    if there is one.

    Raises
    ------
    MaskInversionError
        If something is missing or cannot be used; says what.
    """
    check_layers(chosen.image.layer, chosen.regions.layer)
    words = None if captions is not None and vocabulary.empty else vocabulary.vocabulary()
    request = _request(viewer, chosen, model, words, picture)
    settings = request.settings.changed({"unsure": vocabulary.limits.uncertainty})
    return replace(request, captions=captions, settings=settings)


def find_request(
    viewer: Any, chosen: InputWidget, model: ModelWidget, alpha: float, whole: bool
) -> tuple[Request, Any]:
    """Return what finding by words needs: a run without labels, and its image layer.

    Parameters
    ----------
    viewer : napari.Viewer
    chosen : InputWidget
    model : ModelWidget
    alpha : float
        Replaces the one chosen under Model.
    whole : bool
        Encode the whole image for each region, whatever windows are chosen.

    Raises
    ------
    MaskInversionError
        As `make_request`.
    """
    check_layers(chosen.image.layer, chosen.regions.layer)
    request = _request(viewer, chosen, model, None)
    settings = _for_finding(request.settings, alpha, whole)
    return replace(request, settings=settings, forming=False), chosen.image.layer


def _for_finding(settings: RunSettings, alpha: float, whole: bool) -> RunSettings:
    window = {"window": "whole"} if whole else {}
    # Finding by words always inverts, whatever method ranks the labels.
    return settings.changed({"inversion.alpha": alpha, "method": None, **window})


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
    run_input = prepare(viewer, image, regions, chosen.scope, picture=picture)
    return Request(
        input=run_input,
        vocabulary=words,
        settings=model.settings(method=model.method.chosen(), window=chosen.scope.window()),
        units=units_of(image, run_input.finder.axes),
        forming=chosen.scope.live.isChecked(),
    )


def estimate_of(
    viewer: Any,
    chosen: InputWidget,
    model: ModelWidget,
    store: ModelStore,
    finding: tuple[float, bool] | None = None,
) -> Work | None:
    """Return the work that estimates a run; None without an image or regions.

    ``finding`` are alpha and "whole" of `find_request`, for finding by words.

    Raises
    ------
    InputError
        If the chosen layers cannot be used.
    """
    image, regions = chosen.image.layer, chosen.regions.layer
    if image is None or regions is None:
        return None
    run_input = prepare(viewer, image, regions, chosen.scope, snapshot=False)
    settings = model.settings(window=chosen.scope.window())
    if finding is None:
        return estimation(run_input, settings, store)
    work = estimation(run_input, _for_finding(settings, *finding), store)

    def line() -> str:
        text = work()
        return text and f"If the embeddings do not exist yet: {text}"

    return line


def record(request: Request, image: Any, regions: Any) -> dict[str, Any]:
    """Return what a run was made from, for the exported record."""
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
    """Copy what a run needs of the layers.

    Parameters
    ----------
    viewer : napari.Viewer
    image, regions : napari layers or None
    scope : ScopeWidget
    snapshot : bool
        Copy arrays in memory, so that later edits do not count.
    picture : Picture, optional
        Use this instead of copying the image.

    Raises
    ------
    InputError
        If image or regions are missing, or do not fit each other.
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
    """Refuse a missing image or missing regions.

    Raises
    ------
    InputError
    """
    if image is None:
        raise InputError("Open an image first.")
    if regions is None:
        raise InputError("There are no regions; add a Labels or Shapes layer and draw some.")


def image_layers(viewer: Any) -> list[Any]:
    """Return the user's image layers, lowest first."""
    from napari.layers import Image

    return [layer for layer in viewer.layers if isinstance(layer, Image) and not is_ours(layer)]


def background_of(viewer: Any) -> tuple[float, float, float]:
    """Return the colour of the canvas; black before napari 0.9."""
    color = getattr(getattr(viewer, "canvas", None), "background_color", None)
    if color is None:
        return (0.0, 0.0, 0.0)
    red, green, blue = (float(value) for value in tuple(color)[:3])
    return red, green, blue


def units_of(image: Any, axes: tuple[int, int]) -> Units | None:
    """Return the pixel size along two axes in the image's unit; None if that is pixels.

    It is the size in the world, after rotation, shear and affine. Under shear, where a pixel is not
    a rectangle, it is scaled so that areas are right.
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
