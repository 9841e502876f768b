"""Measure what a user waits for: one more mask, the first result, the labels.

    python benchmarks/interactive.py
    python benchmarks/interactive.py --only labels:demo

Float32, K = 10. ViT-B/16 has random weights (their values do not change the time); the demo model
runs at its working resolution. "mask" is one more mask on an image already set, "first" is
`set_image` and the first mask together; "plane" is one more mask given at so many pixels, while the
model sees 448. Rows are merged into the JSON file as they come.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from measuring import timed
from PIL import Image

LABELS = 5000
TIMED_TEXTS = 500
MODES = {"exact": False, "fast": True}
# Aims in seconds.
AIMS = {"mask:ViT-B-16:448:exact": 1.1, "mask:ViT-B-16:448:fast": 0.25}
PARTS = (
    "masks:224",
    "masks:448",
    "masks:demo",
    "planes:448",
    "labels:demo",
    "labels:ViT-B-16",
)
# Sides of images whose masks are given at that size.
PLANES = (448, 4000)


def row(seconds: list[float], **more: Any) -> dict[str, Any]:
    return {
        "seconds": round(statistics.median(seconds), 4),
        "runs": [round(value, 4) for value in seconds],
        "gemm_gflops": round(measuring.gemm_gflops()),
        "peak_mb": measuring.peak_mb(),
        "versions": measuring.versions("napari-maskinversion", "torch", "open-clip-torch"),
        **more,
    }


def first_mask(
    inverter: Any, config: Any, photo: np.ndarray, mask: np.ndarray, resolution: int | None
) -> None:
    inverter.set_image(photo, resolution=resolution)
    inverter.invert(mask, config)


def measure_masks(part: str, repeat: int, out: Path) -> None:
    from napari_maskinversion import InversionConfig, MaskInverter, load_model, wrap_open_clip

    if part == "demo":
        model, side = load_model("demo", device="cpu"), 512
    else:
        model, side = wrap_open_clip(measuring.random_clip()), int(part)
    masks = measuring.boxes(repeat + 1, side)[:, None]
    with Image.open(measuring.SAMPLE) as opened:
        photo = np.asarray(opened.convert("RGB").resize((side, side)))
    named = "demo:working" if part == "demo" else f"ViT-B-16:{part}"
    resolution = None if part == "demo" else side
    for mode, fast in MODES.items():
        inverter, config = MaskInverter(model), InversionConfig(fast=fast)

        first = partial(first_mask, inverter, config, photo, masks[0], resolution)
        first()
        seconds = [timed(first) for _ in range(repeat)]
        more = {"input_px": max(inverter.input_size), "tokens": int(np.prod(inverter.grid))}
        measuring.keep(out, f"first:{named}:{mode}", row(seconds, **more))
        seconds = [timed(partial(inverter.invert, mask, config)) for mask in masks[1:]]
        measuring.keep(out, f"mask:{named}:{mode}", row(seconds, **more))


def measure_planes(part: str, repeat: int, out: Path) -> None:
    from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip

    side, config = int(part), InversionConfig(fast=True)
    inverter = MaskInverter(wrap_open_clip(measuring.random_clip()))
    small = measuring.boxes(repeat + 1, side)
    for plane in PLANES:
        with Image.open(measuring.SAMPLE) as opened:
            photo = np.asarray(opened.convert("RGB").resize((side, side)).resize((plane, plane)))
        inverter.set_image(photo, resolution=side)
        places = np.arange(plane) * side // plane
        masks = small[:, None, places][..., places]
        inverter.invert(masks[0], config)
        seconds = [timed(partial(inverter.invert, mask, config)) for mask in masks[1:]]
        more = {"input_px": side, "tokens": int(np.prod(inverter.grid))}
        measuring.keep(out, f"plane:ViT-B-16:{plane}", row(seconds, **more))


def measure_labels(name: str, out: Path) -> None:
    from napari_maskinversion import load_model, wrap_open_clip
    from napari_maskinversion.language.labels.vocabulary import TEMPLATES, Vocabulary
    from napari_maskinversion.language.text import embed_vocabulary

    templates = TEMPLATES["ensemble"]
    sentences = LABELS * len(templates)
    labels = tuple(f"thing number {number}" for number in range(LABELS))
    if name != "demo":
        texts = [
            templates[number % len(templates)].replace("{}", labels[number])
            for number in range(TIMED_TEXTS)
        ]
        model = wrap_open_clip(measuring.random_clip())
        model.encode_text(["a photo of a warm-up."])
        seconds = timed(lambda: model.encode_text(texts))
        more = {"texts": TIMED_TEXTS, "extrapolated_s": round(seconds * sentences / TIMED_TEXTS)}
        measuring.keep(out, f"labels:{name}:{TIMED_TEXTS} texts", row([seconds], **more))
        return
    vocabulary = Vocabulary(labels, templates)
    with tempfile.TemporaryDirectory() as folder:
        # A temporary cache, so that the user's is neither read nor written.
        os.environ["NAPARI_MASKINVERSION_CACHE"] = folder
        load_model("demo", device="cpu").encode_text(["a photo of a warm-up."])
        for when in ("embedded", "from disk"):
            # A new model for each: its texts in memory would hide the disk.
            model = load_model("demo", device="cpu")
            seconds = timed(partial(embed_vocabulary, model, vocabulary))
            measuring.keep(out, f"labels:demo:{when}", row([seconds], texts=sentences))


def table(rows: dict[str, Any]) -> str:
    lines = [
        "| what | seconds | runs | fastest, slowest | aim | remarks |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        remarks = []
        if "input_px" in row:
            remarks.append(f"{row['input_px']} px, {row['tokens']} tokens")
        if "texts" in row:
            remarks.append(f"{row['texts']} texts")
        if "extrapolated_s" in row:
            remarks.append(f"{LABELS} labels x 7 templates: about {row['extrapolated_s']} s")
        lines.append(
            f"| {name.replace(':', ', ')} | {row['seconds']:.3f} | {len(row['runs'])} "
            f"| {min(row['runs']):.2f}, {max(row['runs']):.2f} "
            f"| {AIMS.get(name, '-')} | {'; '.join(remarks)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "interactive.json")
    chosen = parser.parse_args()
    for part in chosen.only:
        kind, name = part.split(":")
        if kind == "masks":
            measure_masks(name, chosen.repeat, chosen.out)
        elif kind == "planes":
            measure_planes(name, chosen.repeat, chosen.out)
        else:
            measure_labels(name, chosen.out)
    print(table(measuring.read(chosen.out)["rows"]))


if __name__ == "__main__":
    main()
