"""Makes the input of a run from the viewer and the panel, on the GUI thread."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...base.errors import ConfigError, InputError, ModelError
from ...base.units import Units
from ...engine.models.registry import model_state, unread_spec
from ...engine.models.specs import DEMO
from ...regions.annotations.annotation import CocoFacts
from ...results.settings import RunSettings
from ..layer_input.coordinates import ViewPoint
from ..layer_input.input_pictures import Picture, copy_picture
from ..layer_input.label_layers import COCO
from ..layer_input.layer_facts import file_of, is_image, is_shapes
from ..layer_input.run_input import RunInput, copy_regions
from ..layer_input.viewer_protocols import ImageLayer, RegionsLayer, Viewer
from ..session import ResultRecord, Scope, Session
from ..work.model_store import ModelStore
from .estimating import Work, estimation
from .run_task import Request

NO_WORDS: Final = "There are no words to choose from; type some on the tab Label, or take a preset."


def make_request(
    viewer: Viewer,
    session: Session,
    *,
    captioned: bool = False,
    picture: Picture | None = None,
    keep: bool = False,
) -> Request:
    """Copy everything that a run needs from the viewer and the session."""
    chosen_layers(session)
    words = session.run.vocabulary
    captions = session.run.captions if captioned else None
    if captioned and session.run.captions_problem:
        raise InputError(session.run.captions_problem)
    if words is None and (captions is None or session.run.words_problem):
        raise InputError(session.run.words_problem or NO_WORDS)
    settings = usable_settings(session.run.settings, session.run.settings_problem)
    request = _request(viewer, session, settings, picture)
    before = session.run.record if keep else None
    return replace(request, vocabulary=words, captions=captions, before=before)


def embedding_request(viewer: Viewer, session: Session) -> Request:
    """Return a run as it is chosen, which needs no words: its regions are only to be found."""
    chosen_layers(session)
    settings = usable_settings(session.run.settings, session.run.settings_problem)
    request = _request(viewer, session, settings)
    return replace(request, vocabulary=session.run.vocabulary, forming=False)


def surroundings_request(viewer: Viewer, session: Session, alpha: float, whole: bool) -> Request:
    """Return a run without labels whose embeddings know more of what is around the regions."""
    chosen_layers(session)
    # Only an inversion can take in surroundings, whatever method ranks the labels.
    changes: dict[str, Any] = {"inversion.alpha": alpha, "method": None}
    if whole:
        changes["window"] = "whole"
    settings = usable_settings(session.run.settings).changed(changes)
    request = _request(viewer, session, settings)
    return replace(request, forming=False)


def usable_settings(settings: RunSettings, problem: str = "") -> RunSettings:
    """Return settings whose model and weights are on this machine, without a threshold.

    The words carry the threshold: that of a project would outlive the one chosen since.
    """
    if problem:
        raise ConfigError(problem)
    check_on_disk(settings.model)
    method = settings.method
    if method.weights is None and any(part.weights for part in method.parts):
        raise ConfigError(
            "AlphaCLIP needs weights: choose the file of its checkpoint in Settings > Method."
        )
    method.check()
    return settings.changed({"threshold": None})


def check_on_disk(name: str) -> None:
    """Refuse a model that is not on this machine."""
    if model_state(unread_spec(name)) == "to fetch":
        raise ModelError(
            f"{name} is not on this machine yet; press Fetch in Settings > Model, "
            f"or choose the bundled model '{DEMO}'."
        )


def _request(
    viewer: Viewer, session: Session, settings: RunSettings, picture: Picture | None = None
) -> Request:
    image, _ = chosen_layers(session)
    run_input = prepare(viewer, session, picture=picture)
    return Request(
        input=run_input,
        vocabulary=None,
        settings=settings,
        snapshot=session.run.snapshot(),
        source=_source_of(session, run_input),
        units=units_of(image, run_input.finder.axes),
        file=file_of(image),
        forming=session.run.forming,
    )


def _source_of(session: Session, run_input: RunInput) -> dict[str, Any]:
    """Return what a run is made from; layers may be renamed while it goes on."""
    image, regions = chosen_layers(session)
    shown = run_input.picture.shown
    return {
        **regions.metadata.get(COCO, CocoFacts()).values,
        "image_layer": image.name,
        "regions_layer": regions.name,
        "plane": run_input.finder.description,
        "channels": "this layer" if shown is None else "as displayed",
        "channels_used": [] if shown is None else [layer.grid.name for layer in shown],
    }


def estimate_of(viewer: Viewer, session: Session, store: ModelStore) -> Work | None:
    """Return the work that estimates a run; None without an image or regions."""
    if None in session.run.layers:
        return None
    return estimation(prepare(viewer, session, snapshot=False), session.run.settings, store)


def prepare(
    viewer: Viewer,
    session: Session,
    *,
    snapshot: bool = True,
    picture: Picture | None = None,
    record: ResultRecord | None = None,
) -> RunInput:
    """Copy what a run needs of the chosen layers; with a record, what its run would need now."""
    image, regions = chosen_layers(session)
    view, scope, only = ViewPoint.of(viewer), session.run.scope, None
    if record is not None:
        assert record.finder is not None  # results of layers have one
        view, scope, only = record.finder.view, record.snapshot.scope, record.only
    only = only or chosen_ids(scope, regions)
    shown_only = scope.planes == "shown"
    picture = picture or copy_picture(
        image,
        view,
        channels=scope.channels,
        others=image_layers(viewer),
        background=background_of(viewer),
        shown_only=shown_only,
        snapshot=snapshot,
    )
    return RunInput(
        view=view,
        picture=picture,
        regions=copy_regions(regions, view, shown_only=shown_only, snapshot=snapshot),
        planes=scope.planes,
        only=only,
        merge=scope.limited and scope.merge,
    )


def chosen_layers(session: Session) -> tuple[ImageLayer, RegionsLayer]:
    """Return the chosen image and its regions; refuse a missing one."""
    image, regions = session.run.layers
    if image is None:
        raise InputError("Open an image first.")
    if regions is None:
        raise InputError("There are no regions; add a Labels or Shapes layer and draw some.")
    return image, regions


def image_layers(viewer: Viewer) -> list[ImageLayer]:
    """Return the user's image layers, lowest first."""
    return [layer for layer in viewer.layers if is_image(layer)]


def background_of(viewer: Viewer) -> tuple[float, float, float]:
    """Return the colour of the canvas."""
    red, green, blue = (float(value) for value in tuple(viewer.canvas.background_color)[:3])
    return red, green, blue


def units_of(image: ImageLayer, axes: tuple[int, int]) -> Units | None:
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


def chosen_ids(scope: Scope, layer: RegionsLayer | None) -> frozenset[int] | None:
    """Return the ids of the chosen regions of a layer; None for all."""
    if not scope.limited:
        return None
    if scope.ids.strip():
        return parse_ids(scope.ids)
    if is_shapes(layer):
        chosen = frozenset(int(row) for row in layer.selected_data)
    else:
        chosen = frozenset({int(getattr(layer, "selected_label", 0))} - {0})
    if not chosen:
        raise InputError(
            "No shape is selected, or label 0, the background; select another one, type numbers, "
            "or choose 'all regions' under Use."
        )
    return chosen


def parse_ids(text: str) -> frozenset[int]:
    """Read ``"3, 7-9"``."""
    ids: set[int] = set()
    for part in re.split(r"[,;\s]+", re.sub(r"(?<=\d)\s*-\s*(?=\d)", "-", text.strip())):
        match = re.fullmatch(r"(-?\d+)(?:-(\d+))?", part)
        if match is None:
            raise InputError(f"Regions are chosen by number, such as 3, 7-9; got '{part}'.")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last - first > 100_000:
            raise InputError(f"'{part}' is not a range of regions; the lower number comes first.")
        ids.update(range(first, last + 1))
    return frozenset(ids)
