"""Compare fast and half precision with exact ones: ``python benchmarks/sampling.py --masks 500``.

Photographs with region masks come from the folder named by NAPARI_MASKINVERSION_DATA
(coco-panoptic and dubai-aerial in turn; masks below two tokens included). ``fast=True`` (or a
precision: ``--modes bfloat16 float16``; without the hardware its numbers are computed, without a
time) is compared with the exact inversion on the same masks: cosine of the embeddings, mean
absolute difference of the heatmaps at token resolution, seconds, and how
often the demo model's first suggestion stays the same. Prints a Markdown table and writes
benchmarks/results/sampling.json after every size. Where "fast" is exact because the model is small,
"forced" estimates all the same. "random" is a small tower, "vit-b-16" one of that size; both have
random weights, sharpened.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import imageio.v3 as iio
import numpy as np
import torch
from half_products import HalfProducts
from open_clip.transformer import VisionTransformer
from skimage.measure import label, regionprops

from napari_maskinversion import InversionConfig, MaskInverter, load_model
from napari_maskinversion.demo_model.scene_words import NAMES
from napari_maskinversion.engine.compute import matmul
from napari_maskinversion.engine.compute.devices import processor
from napari_maskinversion.engine.explain.interpolation import normalised
from napari_maskinversion.engine.invert import map_builder

Photo = tuple[np.ndarray, list[np.ndarray]]
PER_IMAGE = 16
COLUMNS = (
    "model", "grid", "mode", "masks", "under two tokens", "cos mean", "cos 1 %", "cos min",
    "below 0.98", "map error", "same name", "time",
)  # fmt: skip


def coco(folder: Path) -> Iterator[Photo]:
    page = json.loads((folder / "panoptic.json").read_text("utf-8"))
    names = {image["id"]: image["file_name"] for image in page["images"]}
    for entry in page["annotations"]:
        codes = iio.imread(folder / "panoptic" / entry["file_name"]).astype(np.int64)
        ids = codes[..., 0] + 256 * codes[..., 1] + 65536 * codes[..., 2]
        masks = [ids == segment["id"] for segment in entry["segments_info"]]
        yield iio.imread(folder / "images" / names[entry["image_id"]]), masks[:PER_IMAGE]


def dubai(folder: Path) -> Iterator[Photo]:
    for path in sorted((folder / "images").iterdir()):
        regions = label(iio.imread(folder / "labels" / f"{path.stem}.png"), background=0)
        props = sorted((p for p in regionprops(regions) if p.area >= 20), key=lambda p: -p.area)
        # Half of the largest, half spread over the small ones.
        small = props[PER_IMAGE // 2 :: max(1, 2 * len(props) // PER_IMAGE)]
        chosen = (props[: PER_IMAGE // 2] + small)[:PER_IMAGE]
        yield iio.imread(path), [regions == p.label for p in chosen]


def photos(root: Path) -> Iterator[Photo]:
    sources = [coco(root / "coco-panoptic"), dubai(root / "dubai-aerial")]
    while sources:
        for source in list(sources):
            photo = next(source, None)
            if photo is None:
                sources.remove(source)
            else:
                yield photo


def sharpened_tower(name: str) -> VisionTransformer:
    """Random weights whose attention is sharp, on 16-pixel patches."""
    torch.manual_seed(0)
    width, layers, heads, joint = (768, 12, 12, 512) if name == "vit-b-16" else (192, 4, 3, 128)
    visual = VisionTransformer(224, 16, width, layers, heads, 4.0, output_dim=joint)
    for name, parameter in visual.named_parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.2 * torch.randn_like(parameter))
        if "in_proj_weight" in name:
            parameter.data.mul_(3.0)
    return visual.requires_grad_(False).eval()


@contextlib.contextmanager
def forced() -> Iterator[None]:
    """Make ``fast`` estimate for any size of model."""
    pay = map_builder.estimates_pay
    map_builder.estimates_pay = lambda *_: True
    try:
        yield
    finally:
        map_builder.estimates_pay = pay


def emulated(mode: str) -> bool:
    """Return whether a mode is a precision that this machine has no hardware for."""
    return mode in matmul.STORED and not matmul.has_precision(mode, torch.device("cpu"))


@contextlib.contextmanager
def prepared(mode: str) -> Iterator[InversionConfig]:
    """Yield the settings of a mode, but for its steps."""
    with contextlib.ExitStack() as stack:
        if mode == "forced":
            stack.enter_context(forced())
        if emulated(mode):
            stack.enter_context(mock.patch.object(matmul, "_missing", return_value=""))
            stack.enter_context(HalfProducts())
        named: Any = mode if mode in matmul.STORED else "float32"
        yield InversionConfig(fast=mode in ("fast", "forced"), precision=named)


def measure(name: str, resolution: int, root: Path, args: argparse.Namespace) -> list[dict]:
    demo = load_model("demo", device="cpu")
    if name == "demo":
        inverter = MaskInverter(demo)
    else:
        place: Any = SimpleNamespace(
            clip=SimpleNamespace(visual=sharpened_tower(name)), device=torch.device("cpu")
        )
        inverter = MaskInverter(place)
    modes = ["exact", *args.modes]
    seconds = dict.fromkeys(modes, 0.0)
    cosines: dict[Any, list] = {mode: [] for mode in modes}
    errors: dict[Any, list] = {mode: [] for mode in modes}
    agree: dict[Any, list] = {mode: [] for mode in modes}
    names = demo.encode_text([f"a photo of a {name}." for name in NAMES])
    tokens: list[float] = []
    grid = (0, 0)
    for picture, masks in photos(root):
        masks = [mask for mask in masks if mask.any()][: args.masks - len(tokens)]
        if not masks:
            break
        if name == "demo":
            inverter.set_image(picture, resolution=resolution)
        else:
            # As many tokens as with the demo model's 8-pixel patches.
            small = demo.preprocess(picture, resolution=resolution // 2)
            tensor = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear")
            inverter.set_image_tensor(2 * tensor)
        grid = inverter.grid
        tokens += [float(mask.mean()) * grid[0] * grid[1] for mask in masks]
        exact = None
        for mode in modes:
            start = time.perf_counter()
            with prepared(mode) as config:
                result = inverter.invert(np.stack(masks), config, steps=args.steps)
            seconds[mode] += time.perf_counter() - start
            exact = exact or result
            cosines[mode].append((exact.embeddings * result.embeddings).sum(1))
            if name == "demo":
                tops = [(one.embeddings @ names.T).argmax(1) for one in (exact, result)]
                agree[mode].append(tops[0] == tops[1])
            difference = np.abs(normalised(exact.grid_maps) - normalised(result.grid_maps))
            errors[mode].append(difference.mean((1, 2)))
    rows = []
    for mode in modes[1:]:
        cosine = np.concatenate(cosines[mode])
        row = (
            f"{name} at {resolution} px", f"about {grid[0] * grid[1]} tokens", mode, len(cosine),
            sum(t < 2 for t in tokens), round(float(cosine.mean()), 5),
            round(float(np.quantile(cosine, 0.01)), 4), round(float(cosine.min()), 4),
            int((cosine < 0.98).sum()), round(float(np.concatenate(errors[mode]).mean()), 4),
            round(float(np.concatenate(agree[mode]).mean()), 4) if name == "demo" else None,
            None if emulated(mode) else round(seconds[mode] / seconds["exact"], 2),
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, row, strict=True)))
        print("| " + " | ".join(str(value) for value in row) + " |", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--masks", type=int, default=500)
    parser.add_argument("--steps", type=int, default=10)
    modes = ["fast", "forced", *matmul.STORED]
    parser.add_argument("--modes", nargs="+", default=modes[:2], choices=modes)
    parser.add_argument("--sizes", nargs="+", default=["demo:128", "random:224", "demo:224"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/sampling.json")
    args = parser.parse_args()
    root = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not root:
        print("Set NAPARI_MASKINVERSION_DATA to the folder with the photographs.", file=sys.stderr)
        return 2
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    rows: list[dict] = []
    for size in args.sizes:
        name, resolution = size.split(":")
        rows += measure(name, int(resolution), Path(root), args)
        args.out.write_text(
            json.dumps(
                {
                    "date": datetime.now(UTC).isoformat(timespec="seconds"),
                    "command": "python benchmarks/sampling.py " + " ".join(sys.argv[1:]),
                    "machine": f"{processor()}, {os.cpu_count()} cores",
                    "torch": torch.__version__,
                    "demo model": load_model("demo", device="cpu").fingerprint,
                    "rows": rows,
                },
                indent=2,
            )
            + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
