"""Measure finding by words in images without regions: precision and recall against real masks.

    python benchmarks/find.py [--images 4] [--tuning 2] [--sets scenes,blood,nuclei,aerial,coco]

The demo model looks for each word that an image shows. A hit is right if its IoU with an object of
that word, which no better hit has, is 0.5 or more. Beside it stands a plain method: a grid of
crops, ranked by the crop's own embedding. Each method's threshold is the one with the best F1 (mean
over the sets) on other images than those measured: the training or validation part of a set, other
seeds of the scenes, other files of COCO. Writes ``results/find.json``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from measuring import RESULTS

from napari_maskinversion import Regions, load_model
from napari_maskinversion.base.regions import Region
from napari_maskinversion.bench.datasets.registry import DATASETS
from napari_maskinversion.bench.datasets.scene_dataset import DrawnScenes
from napari_maskinversion.demo_model.domains import NAMES, data_folder, files_of, read_picture
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.language.ranking.query import embed_expression
from napari_maskinversion.pipeline.finding import _covers, propose
from napari_maskinversion.pipeline.run import PlaneTask, run_planes
from napari_maskinversion.results.settings import RunSettings

Truth = list[tuple[str, Region]]
THINGS = 80  # the first classes of COCO panoptic; the others are background
MOST_WORDS = 3  # of an image, the most frequent
SCALES = (2, 4, 8)  # sides of the grid's crops in the shorter side of the image
THRESHOLDS = np.round(np.arange(-0.2, 0.9, 0.02), 2)


def images(kind: str, part: str, count: int, model: Any) -> Iterator[tuple[str, Any, Truth]]:
    """Yield name, pixels and objects of some images of a set."""
    if kind in ("scenes", "coco"):
        data = DrawnScenes(model, 40) if kind == "scenes" else DATASETS["coco-panoptic"].open()
        keys = list(data.keys())
        half = len(keys) // 2
        for key in (keys[:half] if part == "tuning" else keys[half:])[:count]:
            sample = data.read(key)
            pairs = zip(sample.labels, sample.regions, strict=True)
            truth = [(data.classes[n], r) for n, r in pairs if kind == "scenes" or n < THINGS]
            yield key, sample.image, truth
        return
    folder = data_folder()
    assert folder is not None
    files = files_of(folder, "validation" if part == "tuning" else "test", kind)
    for file in files[:: max(1, len(files) // count)][:count]:
        picture = read_picture(file, kind)
        if picture is None:
            continue
        truth = []
        for number, (y0, x0, y1, x1) in enumerate(picture.boxes.tolist()):
            mask = picture.mask(number, y0, x0, y1 - y0, x1 - x0) > 0.5
            region = Region.from_mask(number, mask, (y0, x0))
            if region is not None:
                truth.append((NAMES[picture.labels[number]], region))
        yield file.stem, picture.pixels, truth


def grid(shape: tuple[int, int]) -> Regions:
    """Return squares of several sizes, half a side apart."""
    squares = []
    for scale in SCALES:
        side = min(shape) // scale
        for y in range(0, shape[0] - side + 1, side // 2):
            for x in range(0, shape[1] - side + 1, side // 2):
                box = (y, x, y + side, x + side)
                squares.append(Region(len(squares) + 1, box, np.ones((side, side), bool)))
    return Regions(shape, squares)


def iou(one: Region, other: Region) -> float:
    """Return the overlap of two regions."""
    y0, x0 = np.maximum(one.bbox[:2], other.bbox[:2])
    y1, x1 = np.minimum(one.bbox[2:], other.bbox[2:])
    if y0 >= y1 or x0 >= x1:
        return 0.0
    parts = [
        r.mask[y0 - r.bbox[0] : y1 - r.bbox[0], x0 - r.bbox[1] : x1 - r.bbox[1]]
        for r in (one, other)
    ]
    shared = float(np.count_nonzero(parts[0] & parts[1]))
    return shared / (one.area + other.area - shared)


def judged(hits: list[tuple[Region, float]], objects: list[Region]) -> list[tuple[float, bool]]:
    """Return similarity, and whether it is right, of each hit, best first."""
    left, rows = list(objects), []
    for region, similarity in hits:
        overlaps = [iou(region, one) for one in left]
        right = bool(overlaps) and max(overlaps) >= 0.5
        if right:
            left.pop(int(np.argmax(overlaps)))
        rows.append((round(similarity, 4), right))
    return rows


def measure(kind: str, part: str, count: int, model: Any) -> list[dict[str, Any]]:
    """Look for the words of some images, by both methods."""
    rows = []
    for name, pixels, truth in images(kind, part, count, model):
        words, counts = np.unique([word for word, _ in truth], return_counts=True)
        words = words[np.argsort(-counts, kind="stable")][:MOST_WORDS]
        begun = time.perf_counter()
        candidates = propose(model, ArrayPlane(pixels), RunSettings())
        proposing = time.perf_counter() - begun
        squares = grid(pixels.shape[:2])
        tasks = [PlaneTask(source=ArrayPlane(pixels), regions=squares)]
        crops = run_planes(model, tasks, None, RunSettings(method="crop")).embeddings
        gridding = time.perf_counter() - begun - proposing
        for word in words.tolist():
            objects = [region for own, region in truth if own == word]
            query = embed_expression(model, word)
            begun = time.perf_counter()
            hits = candidates.search(model, query)
            seconds = time.perf_counter() - begun
            proposals = candidates.task.regions
            best = [max(iou(one, other) for other in proposals) for one in objects]
            similar, kept = crops @ query, []
            for row in np.argsort(-similar).tolist():
                if not any(_covers(squares[row], squares[other]) for other in kept):
                    kept.append(row)
            rows.append(
                {
                    "image": name,
                    "word": word,
                    "objects": len(objects),
                    "proposed": int(np.sum(np.array(best) >= 0.5)),
                    "find": judged([(proposals[h.row], h.similarity) for h in hits], objects),
                    "grid": judged([(squares[i], float(similar[i])) for i in kept], objects),
                    "seconds": [round(s, 1) for s in (proposing, seconds, gridding)],
                }
            )
            print(
                part,
                kind,
                name,
                word,
                len(objects),
                rows[-1]["proposed"],
                rows[-1]["seconds"],
                flush=True,
            )
    return rows


def figures(rows: list[dict[str, Any]], method: str, threshold: float) -> dict[str, float]:
    """Return precision, recall and their F1 at a threshold, over all images and words."""
    kept = [right for row in rows for value, right in row[method] if value >= threshold]
    objects = sum(row["objects"] for row in rows)
    precision = sum(kept) / len(kept) if kept else 0.0
    recall = sum(kept) / objects if objects else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "hits": len(kept)}


def main() -> None:
    """Measure, choose thresholds, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--tuning", type=int, default=2)
    parser.add_argument("--sets", default="scenes,blood,nuclei,aerial,coco")
    options = parser.parse_args()
    model, kinds = load_model("demo"), options.sets.split(",")
    parts = {"tuning": options.tuning, "measured": options.images}
    rows = {
        part: {kind: measure(kind, part, count, model) for kind in kinds}
        for part, count in parts.items()
    }
    report: dict[str, Any] = {"command": "python benchmarks/find.py", "model": model.name}
    for method in ("find", "grid"):
        means = [
            np.mean([figures(own, method, value)["f1"] for own in rows["tuning"].values()])
            for value in THRESHOLDS
        ]
        threshold = float(THRESHOLDS[int(np.argmax(means))])
        report[method] = {"threshold": threshold, "sets": {}}
        for kind, own in rows["measured"].items():
            row = figures(own, method, threshold)
            objects = sum(one["objects"] for one in own)
            row["proposed"] = sum(one["proposed"] for one in own) / objects
            best = max((figures(own, method, value) for value in THRESHOLDS), key=lambda r: r["f1"])
            row["best_f1"] = best["f1"]
            report[method]["sets"][kind] = {
                "images": len({one["image"] for one in own}),
                "objects": objects,
                **{name: round(value, 3) for name, value in row.items()},
            }
            print(method, threshold, kind, report[method]["sets"][kind])
    report["rows"] = rows
    (RESULTS / "find.json").write_text(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
