"""Windows together and one by one, on one large picture.  ``python benchmarks/windows_together.py``

A sample image, enlarged and repeated to 3,072 x 4,096 px, with ellipses of 16 to 80 px. Both ways
run alternately in one process; times are medians. On a CPU once as it is and once as one without
AVX-512 and AMX, in a process of its own. Kernels are those that a GPU is asked for, counted on
tensors without numbers (count.py). Writes benchmarks/results/windows_together.json.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
from typing import Any
from unittest.mock import patch

import count
import measuring
import numpy as np
import open_clip
import torch
from PIL import Image

from napari_maskinversion import label_regions, load_model, wrap_open_clip
from napari_maskinversion.engine.compute.devices import processor
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.pipeline import window_runner

# What keeps torch, MKL and oneDNN from more: as on other processors. Read when torch is loaded.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
WORDS = [f"{word} {i}" for word in ("building", "road", "tree", "water", "field") for i in range(8)]


def large_picture(regions: int) -> tuple[Any, Any]:
    """Return a picture and its label image."""
    tile = Image.fromarray(load_scene("from-above").image).resize((1024, 768))
    image, rng = np.tile(np.asarray(tile), (4, 4, 1)), np.random.default_rng(0)
    labels = np.zeros(image.shape[:2], np.int32)
    for number in range(1, regions + 1):
        a, b = rng.integers(8, 40, 2)
        y, x = rng.integers(40, labels.shape[0] - 40), rng.integers(40, labels.shape[1] - 40)
        rows, columns = np.mgrid[-a:a, -b:b]
        part = labels[y - a : y + a, x - b : x + b]
        part[(rows / a) ** 2 + (columns / b) ** 2 < 1] = number
    return image, labels


def measured(name: str, device: str, regions: int, rounds: int) -> dict[str, Any]:
    """Return seconds of both ways, and how far their embeddings differ."""
    torch.manual_seed(0)
    if name == "demo":
        model = load_model(name, device=device)
    else:
        clip = open_clip.create_model(name, pretrained=None).eval().requires_grad_(False)
        model = wrap_open_clip(clip.to(device), device=device)
    image, labels = large_picture(regions)
    label_regions(image[:600, :600], labels[:600, :600], WORDS, model=model)
    seconds: dict[str, list[tuple[float, float]]] = {"one by one": [], "together": []}
    results = {}
    for _ in range(rounds):
        for way, times in seconds.items():
            most = (lambda *_: 1) if way == "one by one" else window_runner.masks_at_once
            with patch.object(window_runner, "masks_at_once", most):
                begun = time.perf_counter(), time.process_time()
                results[way] = label_regions(image, labels, WORDS, model=model)
                times.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    one, other = (table.embeddings for table in results.values())
    row: dict[str, Any] = {
        "model": name,
        "device": device,
        "regions": len(one),
        "windows": len(results["together"].windows),
        "largest_cosine_distance": float((1 - (one * other).sum(1)).max()),
    }
    for way, times in seconds.items():
        wall, processor = (statistics.median(kind) for kind in zip(*times, strict=True))
        row[way] = {"seconds": round(wall, 2), "processor_seconds": round(processor, 2)}
    row["times_faster"] = round(row["one by one"]["seconds"] / row["together"]["seconds"], 2)
    return row


def kernels(masks: int) -> float:
    """Return the kernels of a step of masks on images of their own (ViT-B/16, 448 px)."""
    return float(count.count(masks, own_images=True)["kernels_per_step"])


def instructions() -> str:
    """Return the widest instructions that products use: AVX2, AVX512, AMX."""
    capability = str(torch.backends.cpu.get_cpu_capability())
    amx = capability == "AVX512" and torch.cpu._is_amx_tile_supported()
    return "AMX" if amx else capability


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=["demo:500", "ViT-B-16:40"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--as-it-is", action="store_true", help="not as another processor, too")
    chosen, out = parser.parse_args(), measuring.RESULTS / "windows_together.json"
    for part in chosen.models:
        name, _, regions = part.partition(":")
        row = measured(name, chosen.device, int(regions), chosen.rounds)
        row |= {"processor": processor(), "threads": torch.get_num_threads()}
        kind = row["instructions"] = instructions()
        row["kernels_per_step"] = {n: kernels(n) for n in (2, 16, 32)}
        row["command"] = shlex.join(["python", "benchmarks/windows_together.py", *sys.argv[1:]])
        if chosen.as_it_is:
            row["command"] = " ".join([*(f"{k}={v}" for k, v in AVX2.items()), row["command"]])
        print(row, flush=True)
        measuring.keep(out, f"{name}:{chosen.device}:{kind}", row)
    if chosen.device == "cpu" and not chosen.as_it_is:
        again = [sys.executable, __file__, *sys.argv[1:], "--as-it-is"]
        subprocess.run(again, env=os.environ | AVX2, check=True)


if __name__ == "__main__":
    main()
