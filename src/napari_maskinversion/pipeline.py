"""Image and regions to a stream of results. The widget and the command line both drive this."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from .core.config import InversionConfig
from .core.errors import ConfigError, InputError, MaskShapeError
from .core.regions import Region, Regions
from .results import RegionResult, Results, RunInfo
from .retrieval.ranking import Ranking, rank
from .retrieval.vocabulary import Vocabulary

if TYPE_CHECKING:
    from .core.inversion import Inversions
    from .core.model import Backbone

__all__ = [
    "Progress",
    "RegionChunk",
    "RegionResult",
    "Results",
    "RunInfo",
    "check_inputs",
    "run",
]

CHUNK: Final = 16  # regions inverted together, and the most that Cancel can lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is.

    Attributes
    ----------
    stage : {"encoding", "inverting"}
    done, total : int
        Regions finished, regions in all.
    first, last : int
        The chunk being worked on, counted from 1; 0 while encoding.
    step, steps : int
        Updates finished of the chunk, updates in all; blocks of the model while encoding.
    maps : callable or None
        Makes the chunk's current token maps (regions, grid_h, grid_w).
    """

    stage: Literal["encoding", "inverting"]
    done: int
    total: int
    first: int = 0
    last: int = 0
    step: int
    steps: int
    maps: Callable[[], npt.NDArray[np.float32]] | None = None

    @property
    def text(self) -> str:
        """One line for people."""
        if self.stage == "encoding":
            return f"Encoding the image, layer {self.step} of {self.steps}"
        which = f"Region {self.first}"
        if self.last != self.first:
            which = f"Regions {self.first}-{self.last}"
        return f"{which} of {self.total}, step {self.step} of {self.steps}"

    @property
    def fraction(self) -> float:
        """Share of the work that is done, 0..1; encoding counts like one more chunk's step."""
        part = self.step / max(self.steps, 1)
        if self.stage == "encoding":
            return 0.1 * part
        finished = self.done + part * (self.last - self.first + 1)
        return 0.1 + 0.9 * finished / max(self.total, 1)


@dataclass(frozen=True, slots=True)
class RegionChunk:
    """Regions just finished, and all results up to now."""

    results: tuple[RegionResult, ...]
    so_far: Results


def check_inputs(
    image: npt.NDArray[np.generic],
    regions: Regions,
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    *,
    chunk_size: int | None = None,
) -> None:
    """Refuse what cannot work, before anything heavy is loaded.

    Raises
    ------
    InputError
        For an image that is none, is constant or holds NaN, or if there are no regions.
    MaskShapeError
        If the regions' plane is of another size than the image.
    ConfigError
        If the chunk size cannot work.
    """
    array = np.asarray(image)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise InputError(
            f"An image has to be (height, width) or (height, width, 3); got {array.shape}."
        )
    if array.size == 0:
        raise InputError(f"The image has no pixels: its shape is {array.shape}.")
    low, high = array.min(), array.max()
    if array.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
        count = int(array.size - np.isfinite(array).sum())
        raise InputError(
            f"The image holds {count} values that are not finite (NaN or infinity); "
            "fill them first."
        )
    if low == high:
        raise InputError(
            f"Every pixel of the image has the same value ({low}); there is nothing to see. "
            "Choose another image or plane."
        )
    if not len(regions):
        raise InputError("There are no regions; draw at least one on the image.")
    if regions.shape != array.shape[:2]:
        raise MaskShapeError(
            f"The regions lie on a plane of {regions.shape[0]} x {regions.shape[1]} px but the "
            f"image is {array.shape[0]} x {array.shape[1]} px; use regions drawn on this image."
        )
    if chunk_size is not None and chunk_size < 1:
        raise ConfigError(f"The chunk size must be at least 1; got {chunk_size}.")


def run(
    model: Backbone,
    image: npt.NDArray[np.generic],
    regions: Regions,
    vocabulary: Vocabulary | None,
    config: InversionConfig,
    *,
    chunk_size: int | None = None,
    resolution: int | None = None,
    keep_aspect: bool = True,
) -> Generator[Progress | RegionChunk, None, Results]:
    """Encode an image, invert its regions chunk by chunk, rank the labels.

    Parameters
    ----------
    model : Backbone
    image : ndarray, shape (H, W) or (H, W, 3)
        uint8, uint16, bool or float in 0..1.
    regions : Regions
        On the image's plane.
    vocabulary : Vocabulary or None
        None gives embeddings and maps without labels.
    config : InversionConfig
    chunk_size : int, optional
        Regions inverted together; 16 unless given.
    resolution, keep_aspect
        As in `MaskInverter.set_image`.

    Yields
    ------
    Progress between steps, `RegionChunk` whenever a chunk is finished. Close the generator
    between two of them to stop: finished chunks are the caller's.

    Returns
    -------
    Results

    Raises
    ------
    MaskInversionError
        Of `check_inputs`, when the generator is first asked.
    """
    check_inputs(image, regions, vocabulary, config, chunk_size=chunk_size)
    from .core.predictor import MaskInverter
    from .retrieval.text import embed_vocabulary

    total, size = len(regions), chunk_size or CHUNK
    inverter = MaskInverter(model)
    encoding = inverter.set_image_steps(
        image, resolution=resolution, keep_aspect=keep_aspect, layers=config.layers
    )
    yield Progress(stage="encoding", done=0, total=total, step=0, steps=model.num_layers)
    for block, blocks in encoding:
        yield Progress(stage="encoding", done=0, total=total, step=block, steps=blocks)
    text = None if vocabulary is None else embed_vocabulary(model, vocabulary)
    results = Results(
        RunInfo(
            model=model.name,
            fingerprint=model.fingerprint,
            config=config,
            vocabulary=vocabulary,
            image_shape=regions.shape,
            input_size=inverter.input_size,
            grid=inverter.grid,
            embed_dim=model.embed_dim,
            keep_aspect=keep_aspect,
            device=str(model.device),
        )
    )
    for start in range(0, total, size):
        chunk = regions[start : start + size]
        work = inverter.invert_steps(chunk, config, planned_masks=total)
        inversions: Inversions
        while True:
            try:
                state = next(work)
            except StopIteration as stop:
                inversions = stop.value
                break
            yield Progress(
                stage="inverting",
                done=start,
                total=total,
                first=start + 1,
                last=start + len(chunk),
                step=state.step,
                steps=state.steps,
                maps=state.grid_maps,
            )
        rankings: list[Ranking] | list[None] = [None] * len(chunk)
        if vocabulary is not None and text is not None:
            unit = inversions.unit_embeddings
            rankings = rank(unit, text, vocabulary.labels, model.logit_scale)
        finished = tuple(
            _result(region, inversions, index, rankings[index])
            for index, region in enumerate(chunk)
        )
        results = results.extended(finished)
        yield RegionChunk(finished, results)
    return results


def _result(
    region: Region, inversions: Inversions, index: int, ranking: Ranking | None
) -> RegionResult:
    return RegionResult(
        id=region.id,
        bbox=region.bbox,
        area=region.area,
        embedding=inversions.embeddings[index],
        grid_map=inversions.grid_maps[index],
        losses=inversions.losses[index],
        ranking=ranking,
        iou=float(inversions.mask_ious[index]),
        low_resolution=bool(inversions.low_resolution[index]),
    )
