"""Any way in the place of the inverter, so that one pipeline runs them all."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.regions import Regions
from ..compute.compute_lock import taking_turns
from ..encode.preprocessing import token_grid
from ..invert.inverter import MaskInverter
from ..invert.loop import InversionResult, StepState
from ..models.backbone import Backbone
from ..settings import InversionConfig
from .factory import region_embedder
from .protocol import RegionMethod
from .registry import Method

AT_ONCE: Final = 4  # regions between two chances to stop


def inverter_maker(
    method: Method, config: InversionConfig, resolution: int | None
) -> Callable[..., Any]:
    """Give what makes a method's inverters, of a model and ``memory_mb``."""
    if method.inverts:
        return MaskInverter
    return partial(MethodInverter, method=method, config=config, resolution=resolution)


def usual_resolution(method: Method, model: Backbone) -> int:
    """Resolution of a method's inputs where none is asked for; the larger one of a fusion."""
    return model.working_resolution if method.whole_image else model.native_resolution


class MethodInverter:
    """What `MaskInverter` offers the pipeline, of another way: embeddings without maps or losses.

    Parameters
    ----------
    model : Backbone
    method : Method
    config : InversionConfig
        For fusions with MaskInversion.
    resolution : int, optional
        As it was asked for; the way's own unless given.
    memory_mb : int
        For `MaskInverter`; nothing is kept here.
    """

    def __init__(
        self,
        model: Backbone,
        method: Method,
        config: InversionConfig,
        *,
        resolution: int | None = None,
        memory_mb: int = 0,
    ) -> None:
        self._model, self._method, self._config = model, method, config
        self._planned = resolution or usual_resolution(method, model)
        self._asked = resolution
        self._way: RegionMethod | None = None
        self._seen: Any = None
        self._plane = self._input = self._grid = (0, 0)

    def set_image_steps(
        self,
        image: npt.ArrayLike,
        *,
        resolution: int | None = None,
        keep_aspect: bool = True,
        layers: int = 1,
    ) -> Generator[tuple[int, int], None, None]:
        """Look at an image; ``resolution`` below the planned one makes all inputs smaller."""
        array = np.asarray(image)
        self.release()
        yield 0, 1
        if self._way is None:
            self._way = region_embedder(
                self._method,
                self._model,
                resolution=self._asked,
                keep_aspect=keep_aspect,
                inversion=self._config,
            )
        side = resolution or self._planned
        scale = 1.0 if side == self._planned else side / self._planned
        self._seen = yield from taking_turns(self._look(array, scale))
        patch = self._model.patch_size
        self._plane = (array.shape[0], array.shape[1])
        self._grid = token_grid(
            *self._plane,
            patch=patch,
            resolution=self._way.side(scale),
            keep_aspect=keep_aspect,
        )
        self._input = (self._grid[0] * patch, self._grid[1] * patch)
        yield 1, 1

    def _look(self, image: npt.NDArray[Any], scale: float) -> Generator[tuple[int, int], None, Any]:
        yield 0, 1
        assert self._way is not None
        return self._way.look(image, scale)

    @property
    def input_size(self) -> tuple[int, int]:
        """Pixels (H, W) of the model's input for the whole image."""
        return self._input

    @property
    def grid(self) -> tuple[int, int]:
        """Tokens along y and x of that input."""
        return self._grid

    def spare_memory(self) -> None:
        """Nothing is kept that could be spared."""

    def release(self) -> None:
        """Let go of the image."""
        self._seen = None

    def invert_steps(
        self, masks: Regions, config: InversionConfig, *, planned_masks: int | None = None
    ) -> Generator[StepState, None, InversionResult]:
        """Embed regions; yields after every few of them."""
        return (yield from taking_turns(self._embed(masks)))

    def _embed(self, regions: Regions) -> Generator[StepState, None, InversionResult]:
        assert self._way is not None
        rows = []
        for start in range(0, len(regions), AT_ONCE):
            rows.append(self._way.rows(self._seen, regions[start : start + AT_ONCE]).numpy())
            yield StepState(min(start + AT_ONCE, len(regions)), len(regions), None)
        count = len(regions)
        token = self._plane[0] * self._plane[1] / (self._grid[0] * self._grid[1])
        small = [region.area < token and not self._method.cut_out for region in regions]
        return InversionResult(
            embeddings=np.concatenate(rows).astype(np.float32),
            grid_maps=np.zeros((count, 0, 0), np.float32),
            losses=np.zeros((count, 0), np.float32),
            mask_ious=np.full(count, np.nan, np.float32),
            low_resolution=np.array(small),
            input_size=self._input,
            mask_size=self._plane,
        )
