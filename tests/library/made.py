"""Results with embeddings of our own, for libraries in tests."""

import numpy as np
import skimage.io

from napari_maskinversion.base.identity import identify_image
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from napari_maskinversion.results.region_result import RegionResult, WindowRecord
from napari_maskinversion.results.results import Results
from tests.review.decided import info
from tests.scenes import picture, regions

WIDTH = 16
WORDS = ("red cell", "white cell")


def vectors(count, seed=0, width=WIDTH):
    """Unit vectors (count, width), float32."""
    rows = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def bundle(count=5, seed=0, *, fingerprint="abc123", decisions=None, rows=None, pixels=None):
    """Results of an image (60, 80) with squares 1 to ``count``; the words take turns."""
    rows = vectors(count, seed) if rows is None else rows
    about = info(WORDS, fingerprint, rows.shape[1])
    window = WindowRecord(
        box=(0, 0, 60, 80),
        level=0,
        pixels=(60, 80),
        input_size=(64, 64),
        grid=(8, 8),
        whole=True,
        resolution=64,
    )
    drawn = regions(count)
    results = [
        RegionResult(
            id=region.id,
            bbox=region.bbox,
            area=region.area,
            iou=0.5,
            low_resolution=False,
            index=place,
            raw_embedding=rows[place],
            grid_map=np.zeros((8, 8), np.float32),
            losses=np.zeros(4, np.float32),
            ranking=Ranking(
                WORDS if place % 2 == 0 else WORDS[::-1],
                np.array([0.3, 0.2], np.float32),
                np.array([0.7, 0.3], np.float32),
            ),
            window=window,
        )
        for place, region in enumerate(drawn)
    ]
    image = identify_image(f"image-{seed}.png", picture(seed=seed) if pixels is None else pixels)
    columns = {}
    if decisions is not None:
        columns = {
            "decision": list(decisions),
            "accepted_label": ["dust" if one == "accepted" else "" for one in decisions],
            "decided_at": ["2026-01-02T03:04:05.678Z"] * count,
        }
    return Bundle(
        results=Results(about, tuple(results)),
        masks=compress_masks([PlaneRegions((), drawn)]),
        image=image,
        columns=columns,
    )


def write_image(folder, seed=0):
    """Write the image of `bundle`; return its path."""
    path = folder / f"image-{seed}.png"
    skimage.io.imsave(path, picture(seed=seed), check_contrast=False)
    return path
