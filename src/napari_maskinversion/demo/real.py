"""Measure a model on the real test sets: ``python -m napari_maskinversion.demo.real``.

Every region is seen in a window of its own and asked for among the names of its kind. Aerial tiles
are split by tile and other images by image, see `domains`; shares are averaged over the classes,
because most blood cells are red and most aerial regions are buildings.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from napari_maskinversion.core.backbone import Backbone, load_model
from napari_maskinversion.core.config import InversionConfig
from napari_maskinversion.core.predictor import MaskInverter

from .domains import KINDS, NAMES, Picture, data_folder, load
from .evaluate import WAYS
from .maps import encode
from .model import normalise, write_whole
from .probe import crops, token_means
from .vocabulary import REAL

CONTEXT: Final = 2.0  # a window's side over the longer side of the region's box
LEAST: Final = {"aerial": 96, "blood": 64, "nuclei": 32}  # pixels of a window


@dataclass(frozen=True, slots=True)
class Case:
    """One region in its window.

    Attributes
    ----------
    pixels : ndarray, shape (side, side, 3), uint8
    mask : ndarray, shape (side, side), bool
    label : int
        Index into `domains.NAMES`.
    """

    pixels: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    label: int

    @property
    def features(self) -> NDArray[np.float64]:
        """Size and colour: log of the area, mean and spread of each channel, (7,)."""
        inside = self.pixels[self.mask].astype(np.float64) / 255
        return np.array([np.log(len(inside)), *inside.mean(0), *inside.std(0)])


def draw_cases(pictures: Sequence[Picture], per_class: int, *, seed: int = 0) -> list[Case]:
    """Choose up to so many regions of each class at random, each in its window."""
    places: dict[int, list[tuple[Picture, int]]] = {}
    for picture in pictures:
        for index, label in enumerate(picture.labels.tolist()):
            places.setdefault(label, []).append((picture, index))
    rng = np.random.default_rng(seed)
    cases = []
    for label in sorted(places):
        chosen = rng.permutation(len(places[label]))[:per_class]
        cases += [_case(*places[label][int(i)]) for i in chosen]
    return cases


def _case(picture: Picture, index: int) -> Case:
    height, width = picture.pixels.shape[:2]
    y0, x0, y1, x1 = picture.boxes[index].tolist()
    side = round(max(LEAST[picture.kind], CONTEXT * max(y1 - y0, x1 - x0)))
    side = min(side, height, width)
    y = int(np.clip((y0 + y1 - side) // 2, 0, height - side))
    x = int(np.clip((x0 + x1 - side) // 2, 0, width - side))
    mask = picture.mask(index, y, x, side, side) > 0.5
    return Case(picture.pixels[y : y + side, x : x + side], mask, int(picture.labels[index]))


def embed(
    model: Backbone, case: Case, resolution: int, config: InversionConfig
) -> tuple[dict[str, NDArray[np.float32]], float]:
    """Embed a region in every way (e,), and tell its heatmap's overlap with the mask."""
    inverter = MaskInverter(model)
    inverter.set_image(case.pixels, resolution=resolution)
    result = inverter.invert(case.mask[None], config)
    found = {"maskinversion": result.embeddings[0], "cls": inverter.image_embedding}
    visual: Any = model.clip.visual
    rgb = torch.from_numpy(case.pixels.copy()).permute(2, 0, 1)[None].float() / 255
    mask = torch.from_numpy(case.mask)[None, None].float()
    with torch.no_grad():
        image = encode(visual, model.preprocess(case.pixels, resolution=resolution))
        found["maskclip"] = token_means(visual, image, mask)[0, 0].numpy()
        for key, masked in (("crop", False), ("masked_crop", True)):
            cut = crops(rgb, mask, model.native_resolution, masked=masked)[0]
            found[key] = encode(visual, normalise(cut)).embedding[0].numpy()
    return found, float(result.mask_ious[0])


def macro(found: NDArray[np.int64], true: NDArray[np.int64]) -> dict[str, float]:
    """Share of right answers averaged over the classes, with half its 95 % interval."""
    shares, variance = [], 0.0
    classes = np.unique(true)
    for label in classes:
        hits = found[true == label] == label
        shares.append(hits.mean())
        # one success and one failure more than seen, so that a perfect class is not certain
        p = (hits.sum() + 1) / (len(hits) + 2)
        variance += p * (1 - p) / len(hits)
    half = 1.96 * np.sqrt(variance) / len(classes)
    return {"top1": float(np.mean(shares)), "half": float(half)}


def size_and_colour(train: Sequence[Case], test: Sequence[Case]) -> NDArray[np.int64]:
    """Name regions by area and colour alone: linear discriminants, every class as likely."""
    x = np.array([c.features for c in train])
    y = np.array([c.label for c in train])
    classes = np.unique(y)
    means = np.array([x[y == label].mean(0) for label in classes])
    spread = x - means[np.searchsorted(classes, y)]
    inverse = np.linalg.inv(spread.T @ spread / len(x) + 1e-6 * np.eye(x.shape[1]))
    z = np.array([c.features for c in test])
    away = z[:, None] - means[None]
    nearest = np.einsum("nkf,fg,nkg->nk", away, inverse, away).argmin(1)
    return np.asarray(classes[nearest], np.int64)


def evaluate_real(
    model: Backbone,
    folder: Path,
    *,
    per_class: int = 100,
    resolution: int | None = None,
    config: InversionConfig | None = None,
) -> dict[str, Any]:
    """Measure a model on the test splits.

    Parameters
    ----------
    model : Backbone
        From `load_model`, on the CPU.
    folder : Path
        With the real images.
    per_class : int
        Regions of each class, at most.
    resolution : int, optional
        Working resolution; default the model's own.
    config : InversionConfig, optional
        Default 10 steps at learning rate 0.1.

    Returns
    -------
    dict
        Per kind: regions, classes, and for each way and baseline ``top1`` (macro-average) and
        ``half`` (half the 95 % interval), shares from 0 to 1; ``iou`` of the heatmaps.
    """
    config = config or InversionConfig(steps=10, learning_rate=0.1)
    resolution = resolution or model.working_resolution
    out: dict[str, Any] = {"resolution": resolution, "per_class": per_class, "kinds": {}}
    for kind in KINDS:
        test = draw_cases(load(folder, "test", [kind]), per_class)
        train = draw_cases(load(folder, "train", [kind]), 4 * per_class)
        members = np.array([i for i, name in enumerate(REAL) if name.group == kind])
        template = REAL[members[0]].templates[0]
        names = model.encode_text([template.format(NAMES[i]) for i in members])
        true = np.array([case.label for case in test])
        rows = [embed(model, case, resolution, config) for case in test]
        table: dict[str, Any] = {"regions": len(test), "classes": len(members)}
        for way in WAYS:
            found = np.stack([row[0][way] for row in rows])
            table[way] = macro(members[(found @ names.T).argmax(1)], true)
        table["size_and_colour"] = macro(size_and_colour(train, test), true)
        table["majority"] = {"top1": 1 / len(np.unique(true)), "half": 0.0}
        table["iou"] = float(np.mean([row[1] for row in rows]))
        out["kinds"][kind] = table
    return out


def report(found: dict[str, Any]) -> str:
    """Lay the figures out as a Markdown table, in percent."""
    kinds = found["kinds"]
    head = [f"{kind} ({t['regions']} regions, {t['classes']} names)" for kind, t in kinds.items()]
    lines = [f"| macro-averaged top-1, % | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    ways = {**WAYS, "size_and_colour": "size and colour alone", "majority": "most frequent class"}
    for way, title in ways.items():
        cells = [f"{100 * t[way]['top1']:.1f} ± {100 * t[way]['half']:.1f}" for t in kinds.values()]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    overlaps = " | ".join(f"{t['iou']:.2f}" for t in kinds.values())
    lines.append(f"| heatmap-to-mask IoU | {overlaps} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure a model on the real test sets.")
    parser.add_argument("--per-class", type=int, default=100, help="regions of a class (100)")
    parser.add_argument("--resolution", type=int, help="working resolution in pixels")
    parser.add_argument("--model", default="demo", help="a model's folder, default the bundled one")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args(arguments)
    if given.per_class < 1:
        parser.error(f"--per-class must be at least 1; got {given.per_class}")
    folder = data_folder()
    if folder is None:
        parser.exit(2, "No real images: set NAPARI_MASKINVERSION_DATA to the folder with them.\n")
    model = load_model(given.model, device="cpu")
    found = evaluate_real(model, folder, per_class=given.per_class, resolution=given.resolution)
    print(report(found))
    if given.json:
        write_whole(given.json, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
