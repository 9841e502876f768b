"""Seconds of whole calls on a ViT-B/16 with random weights: ``python benchmarks/engine_quick.py``.

Medians of ``--repeat`` calls, image included unless it says "more"; float32, K = 10. The published
implementation took 51 s for five masks at 448 px and 106 s for fifty at 224 px on two cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from types import SimpleNamespace

import measuring
import torch
from open_clip.transformer import VisionTransformer

from napari_maskinversion import InversionConfig, MaskInverter

CASES = {"5x448": (5, 448), "50x224": (50, 224), "more448": (1, 448), "100x448": (100, 448)}


def tower() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(224, 16, 768, 12, 12, 4.0, output_dim=512).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    visual = tower().requires_grad_(False)
    model = SimpleNamespace(clip=SimpleNamespace(visual=visual), device=torch.device("cpu"))
    for case in chosen.cases:
        count, side = CASES[case]
        picture, masks = torch.randn(1, 3, side, side), measuring.boxes(count, side)
        for fast in (False, True):
            config, whole, encoding = InversionConfig(fast=fast), [], []
            inverter = MaskInverter(model)
            for number in range(chosen.repeat):
                start = time.perf_counter()
                if number == 0 or not case.startswith("more"):
                    inverter.set_image_tensor(picture)
                middle = time.perf_counter()
                if case.startswith("more"):
                    start = middle
                inverter.invert(masks, config)
                whole.append(time.perf_counter() - start)
                encoding.append(middle - start)
            print(
                json.dumps(
                    {
                        "case": case,
                        "fast": fast,
                        "seconds": round(statistics.median(whole), 3),
                        "image": round(statistics.median(encoding), 3),
                        "gemm_gflops": round(measuring.gemm_gflops(8)),
                        "peak_mb": measuring.peak_mb(),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
