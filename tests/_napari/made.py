"""Results as a run makes them, without a run."""

import numpy as np

from napari_maskinversion.results.region_result import RegionResult, WindowRecord
from napari_maskinversion.results.run_info import RunInfo
from napari_maskinversion.results.settings import RunSettings


def strongest_token(heat):
    """The token (row, column) of a made-up model that is strongest in the layer's heatmap."""
    row, column = np.unravel_index(np.argmax(heat), heat.shape)
    return int(row) // 16, int(column) // 16


def made_info(vocabulary=None, settings=None, *, shape=(8, 8), **values):
    """What is recorded of a run; by default of a made-up model with a grid of 4 x 5."""
    values = {"input_size": (64, 80), "grid": (4, 5), "embed_dim": 8, **values}
    return RunInfo(
        fingerprint="0",
        settings=settings or RunSettings(model="made up"),
        vocabulary=vocabulary,
        image_shape=shape,
        device="cpu",
        **values,
    )


def made_region(number, *, shape=(8, 8), **values):
    """The result of a region; by default of 2 x 2 pixels, seen with the whole image."""
    window = WindowRecord(
        box=(0.0, 0.0, float(shape[0]), float(shape[1])),
        level=0,
        pixels=shape,
        input_size=(64, 80),
        grid=(4, 5),
        whole=True,
    )
    about = {
        "bbox": (0, 0, 2, 2),
        "area": 4,
        "raw_embedding": np.full(8, float(number), np.float32),
        "grid_map": np.ones((4, 5), np.float32),
        "losses": np.linspace(1, 0.5, 4, dtype=np.float32),
        "ranking": None,
        "iou": 0.5,
        "low_resolution": False,
        "window": window,
        "index": number - 1,
        "centroid": (1.0, 1.0),
    }
    return RegionResult(id=number, **{**about, **values})
