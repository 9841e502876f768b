"""The layers that results come from, and how to read a region from them again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ...base.errors import InputError, ModelError
from ...results.region_result import RegionResult
from ...results.run_info import RunInfo
from ..layer_input.coordinates import Grid, ViewPoint, plane_of
from ..layer_input.input_pictures import Channels, copy_picture
from ..layer_input.run_input import PlaneFinder, RunInput, ShapesCopy, copy_regions
from ..layer_input.viewer_protocols import ImageLayer, Layer, RegionsLayer, Viewer
from ..work.model_store import ModelStore
from ..work.preload import start_torch
from .preparing import background_of, image_layers

LayerType = TypeVar("LayerType", bound=Layer)

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...pipeline.explaining import Seen
    from ..session import ResultRecord


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunSource:
    """The layers of a run and how they were read; without pixels."""

    image: ImageLayer | None
    regions: RegionsLayer | None
    finder: PlaneFinder
    channels: Channels
    model: str  # As requested
    device: str
    reopened: bool = False  # Results of a file, whose model may not be on this machine

    @classmethod
    def of(cls, record: ResultRecord) -> RunSource:
        """Return the source of results."""
        snapshot = record.snapshot
        assert record.finder is not None  # results of layers have one
        return cls(
            image=snapshot.image,
            regions=snapshot.regions,
            finder=record.finder,
            channels=snapshot.scope.channels,
            model=snapshot.settings.model,
            device=snapshot.settings.device,
            reopened=record.reopened,
        )

    def again(self, viewer: Viewer, region: RegionResult, *, drawn: bool) -> RunInput:
        """Copy what a run with this one region needs; on the GUI thread."""
        image = self.check(viewer, drawn=drawn)
        finder = self.finder
        # A layer of reopened regions holds merged ones under the first id only.
        members = () if self.reopened else region.members
        view = finder.view_at(region.position if finder.all_planes else ())
        if drawn:
            regions = copy_regions(_still_there(self.regions, viewer, "regions"), view)
        else:
            regions = ShapesCopy(grid=finder.regions, shapes=())
        return RunInput(
            view=view,
            picture=copy_picture(
                image,
                view,
                channels=self.channels,
                others=image_layers(viewer),
                background=background_of(viewer),
                shown_only=True,
            ),
            regions=regions,
            only=frozenset(members or (region.id,)),
            merge=bool(members),
        )

    def check(self, viewer: Viewer, *, drawn: bool) -> ImageLayer:
        """Return the image; refuse layers that are gone, and an image of another size."""
        image = _still_there(self.image, viewer, "image")
        if drawn:
            _still_there(self.regions, viewer, "regions")
        if Grid.of(image, ViewPoint.of(viewer)).shape != self.finder.image.shape:
            raise InputError(
                f"Layer '{image.name}' holds an image of another size since this run; run again."
            )
        return image

    def load(self, store: ModelStore) -> Backbone:
        """Load the model of the results, in a worker."""
        if not store.has(self.model, self.device):
            start_torch()
            self._check_model()
        return store.load(self.model, self.device)

    def _check_model(self) -> None:
        """Check that the model is on this machine."""
        if not self.reopened:
            return
        from ...engine.models.registry import model_state, unread_spec

        try:
            is_on_disk = model_state(unread_spec(self.model)) != "to fetch"
        except ModelError:  # a name of the user's own
            is_on_disk = False
        if not is_on_disk:
            raise InputError(
                f"The model of these results, {self.model}, is not on this machine: press Fetch in "
                "Settings > Model, or choose its file or folder there, then open the results again."
            )


def _still_there(layer: LayerType | None, viewer: Viewer, content: str) -> LayerType:
    """Return a layer that has an image or regions of a run; refuse one that was removed."""
    if layer is None:
        raise InputError("The file of these results holds no regions; run again.")
    if layer not in viewer.layers:
        raise InputError(
            f"The layer '{layer.name}' with the {content} of this run was removed; "
            "add it and run again."
        )
    return layer


def look_again(run_input: RunInput, result: RegionResult, info: RunInfo, *, drawn: bool) -> Seen:
    """Return the region on its plane; in a worker."""
    from ...pipeline.explaining import Seen

    if not drawn:
        plane = plane_of(run_input.picture.grid, run_input.view)
        source = run_input.picture.source(plane, run_input.view)
        return Seen(source=source, result=result, info=info)
    (task,) = run_input.tasks()
    (region,) = task.regions
    # Merged regions have the id of their first member, here as in the run.
    return Seen(source=task.source, result=result, info=info, region=replace(region, id=result.id))
