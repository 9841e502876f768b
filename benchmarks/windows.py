"""How windows change the demo's answers on real images: ``python benchmarks/windows.py``.

`label_regions` names up to 6 regions of each class in up to 30 images of a kind (the same as in
flags.py), with automatic windows and with windows of a fixed size. "validation" is for choosing,
"test" for the figures. Writes benchmarks/results/windows.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import flags
import measuring
import numpy as np

from napari_maskinversion import load_model
from napari_maskinversion.demo_model.domains import KINDS
from napari_maskinversion.images.windows import WindowConfig

WINDOWS = {
    "automatic": WindowConfig(),
    "96 px, context 1.2": WindowConfig(mode="fixed", side=96, context=1.2),
    "128 px, context 1.5": WindowConfig(mode="fixed", side=128, context=1.5),
}


def named(model: Any, split: str, kind: str, window: WindowConfig) -> dict[str, Any]:
    """Return the share of regions named rightly, overlaps and seconds."""
    start = time.perf_counter()
    found = list(flags.real_regions(model, split, kind, window=window))
    seconds = time.perf_counter() - start
    truth = np.array([name for _, name in found])
    right = np.array(
        [row.ranking is not None and row.ranking.labels[0] == name for row, name in found]
    )
    return {
        "regions": len(right),
        "right": round(float(right.mean()), 3),
        "macro": round(float(np.mean([right[truth == one].mean() for one in set(truth)])), 3),
        "iou": round(float(np.mean([row.iou for row, _ in found])), 3),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "windows.json")
    chosen = parser.parse_args()
    report: dict[str, Any] = {
        "about": measuring.about() | {"command": "python benchmarks/windows.py"}
    }
    model = load_model("demo")
    for split in ("validation", "test"):
        for kind in KINDS:
            for title, window in WINDOWS.items():
                row = named(model, split, kind, window)
                report.setdefault(split, {}).setdefault(kind, {})[title] = row
                print(split, kind, title, row, flush=True)
    measuring.write(chosen.out, report)


if __name__ == "__main__":
    main()
