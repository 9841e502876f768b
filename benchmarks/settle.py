"""What stopping early saves and costs: ``python benchmarks/settle.py --masks 200``.

`InversionConfig.settle` leaves masks whose loss changed by less than a bound in a step. Over
photographs from the folder named by NAPARI_MASKINVERSION_DATA (see sampling.py), on the demo model:
updates saved, cosine to the embedding after all steps, loss given away, first suggestions that stay
the same, time. Prints a Markdown table; merges rows into benchmarks/results/settle.json.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import measuring
import numpy as np
from sampling import photos

from napari_maskinversion import InversionConfig, MaskInverter, load_model
from napari_maskinversion.demo_model.vocabulary import NAMES
from napari_maskinversion.engine.invert.loop import InversionResult


def updates(found: InversionResult) -> np.ndarray:
    """Updates (N,) that each mask took: its loss stands still from the last one on."""
    before = found.losses[:, :-1]
    moving = np.diff(before, axis=1) != 0
    last = moving.shape[1] - np.argmax(moving[:, ::-1], axis=1)
    return np.where(moving.any(1), last + 1, 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--masks", type=int, default=200)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 30])
    parser.add_argument("--bounds", type=float, nargs="+", default=[0.0003, 0.001, 0.003, 0.01])
    parser.add_argument("--resolution", type=int, default=128)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "settle.json")
    args = parser.parse_args()
    root = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not root:
        print("Set NAPARI_MASKINVERSION_DATA to the folder with the photographs.", file=sys.stderr)
        return 2
    model = load_model("demo", device="cpu")
    names = model.encode_text([f"a photo of a {name}." for name in NAMES])
    inverter = MaskInverter(model)
    settings = [(steps, bound) for steps in args.steps for bound in (None, *args.bounds)]
    found: dict[tuple[int, float | None], list[InversionResult]] = {key: [] for key in settings}
    seconds = dict.fromkeys(settings, 0.0)
    count = 0
    for picture, masks in photos(Path(root)):
        stack = [mask for mask in masks if mask.any()][: args.masks - count]
        if not stack:
            break
        count += len(stack)
        inverter.set_image(picture, resolution=args.resolution)
        for steps, bound in settings:
            start = time.perf_counter()
            config = InversionConfig(steps=steps, settle=bound, query_stride=1)
            found[steps, bound].append(inverter.invert(np.stack(stack), config))
            seconds[steps, bound] += time.perf_counter() - start
    print("| steps | settle | updates taken | cos mean | cos min | loss | same name | time |")
    print("|---|---|---|---|---|---|---|---|")
    for steps, bound in settings:
        whole = np.concatenate([one.unit_embeddings for one in found[steps, None]])
        some = np.concatenate([one.unit_embeddings for one in found[steps, bound]])
        cosine = (whole * some).sum(1)
        losses = [np.concatenate([r.losses[:, -1] for r in found[steps, b]]) for b in (None, bound)]
        tops = [(unit @ names.T).argmax(1) for unit in (whole, some)]
        row = {
            "masks": count,
            "updates_mean": float(np.concatenate([updates(r) for r in found[steps, bound]]).mean()),
            "cos_mean": float(cosine.mean()),
            "cos_min": float(cosine.min()),
            "loss_added": float((losses[1] - losses[0]).mean()),
            "same_name": float((tops[0] == tops[1]).mean()),
            "time": seconds[steps, bound] / seconds[steps, None],
        }
        row = {key: round(value, 5) for key, value in row.items()}
        measuring.keep(args.out, f"steps {steps}, settle {bound}", row)
        print(
            f"| {steps} | {bound} | {row['updates_mean']:.1f} | {row['cos_mean']:.4f} "
            f"| {row['cos_min']:.4f} | +{row['loss_added']:.4f} | {row['same_name']:.3f} "
            f"| {row['time']:.2f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
