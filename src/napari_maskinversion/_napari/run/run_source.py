"""Where results come from, and how to look at a region of theirs once more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...base.errors import InputError, ModelError
from ..layers.coordinates import Grid, ViewPoint, plane_of
from ..layers.pictures import Channels, copy_picture
from ..layers.tasks import PlaneFinder, RunInput, ShapesCopy, copy_regions
from .preparing import background_of, image_layers

if TYPE_CHECKING:
    from ...pipeline.explaining import Seen
    from ...results.region_result import RegionResult
    from ...results.run_info import RunInfo
    from .request import Request


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunSource:
    """The layers of a run and how they were looked at; no pixels.

    Attributes
    ----------
    image, regions : napari layers
    finder : PlaneFinder
    channels : {"layer", "displayed"}
    model, device : str
        As asked for.
    reopened : bool
        Results of a file: nobody has seen to it that their model is here.
    """

    image: Any
    regions: Any
    finder: PlaneFinder
    channels: Channels
    model: str
    device: str
    reopened: bool = False

    @classmethod
    def of(cls, request: Request, image: Any, regions: Any) -> RunSource:
        """Note where a run's results will come from."""
        return cls(
            image=image,
            regions=regions,
            finder=request.input.finder,
            channels="layer" if request.input.picture.shown is None else "displayed",
            model=request.settings.model,
            device=request.settings.device,
        )

    def again(self, viewer: Any, region: RegionResult, *, drawn: bool) -> RunInput:
        """Copy what a run with that one region needs; on the main thread.

        Parameters
        ----------
        viewer : napari.Viewer
        region : RegionResult
        drawn : bool
            Take the region itself as well; else the image alone.

        Raises
        ------
        InputError
            If the layers are gone, or hold something else; says what to do.
        """
        self.check(viewer, drawn=drawn)
        finder = self.finder
        # The layer of a file's regions knows merged ones by the first name alone.
        members = () if self.reopened else region.members
        view = finder.view_at(region.position if finder.all_planes else ())
        return RunInput(
            view=view,
            picture=copy_picture(
                self.image,
                view,
                channels=self.channels,
                others=image_layers(viewer),
                background=background_of(viewer),
                shown_only=True,
            ),
            regions=(
                copy_regions(self.regions, view)
                if drawn
                else ShapesCopy(grid=finder.regions, shapes=())
            ),
            only=frozenset(members or (region.id,)),
            merge=bool(members),
        )

    def check(self, viewer: Any, *, drawn: bool) -> None:
        """See whether the layers are still there, and the image as large as it was.

        Raises
        ------
        InputError
            If not; says what to do.
        """
        for layer, what in ((self.image, "image"), (self.regions, "regions"))[: 1 + drawn]:
            if layer is None:
                raise InputError("The regions of these results are not in their file; run again.")
            if layer not in viewer.layers:
                raise InputError(
                    f"The layer '{layer.name}' with the {what} of this run was removed; "
                    "add it and run again."
                )
        if Grid.of(self.image, ViewPoint.of(viewer)).shape != self.finder.image.shape:
            raise InputError(
                f"Layer '{self.image.name}' holds an image of another size since this run; "
                "run again."
            )

    def check_model(self) -> None:
        """See whether the model is on this machine; in a worker.

        Raises
        ------
        InputError
            If not; says what to do.
        """
        if not self.reopened:
            return
        from ...engine.models.registry import get_spec, model_state

        try:
            there = model_state(get_spec(self.model)) != "to fetch"
        except ModelError:
            raise InputError(
                f"The model of these results, {self.model}, is not known by its name here; choose "
                "it under Model and run again."
            ) from None
        if not there:
            raise InputError(
                f"The model of these results, {self.model}, is not on this machine; choose it "
                "under Model and press Fetch, then look again."
            )


def look_again(given: RunInput, result: RegionResult, info: RunInfo, *, drawn: bool) -> Seen:
    """Find the region on its plane; in a worker.

    Raises
    ------
    InputError
        If it is not there any more.
    """
    from ...pipeline.explaining import Seen

    if not drawn:
        plane = plane_of(given.picture.grid, given.view)
        source = given.picture.source(plane, given.view)
        return Seen(source=source, result=result, info=info)
    (task,) = given.tasks()
    (region,) = task.regions
    # Of merged regions the first member's name counts, here as in the run.
    return Seen(source=task.source, result=result, info=info, region=replace(region, id=result.id))
