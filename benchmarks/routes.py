"""Check that the chosen route is the faster one:  ``python benchmarks/routes.py``

For towers of several widths and grids, with all query tokens and with every third row and column of
them, it measures on both routes the seconds of a pass (query vectors of a group of masks, and their
gradient), and of making a decomposition (some of its rows, scaled up). From these follows the time
of either route for any number of masks and steps; the chosen one is compared with the better one
over a grid of them. What both routes share (ReLU products, Dice) is left out, so that the ratio of
whole calls is smaller. Also fits the cost model's constant: how many multiply-adds take as long as
reading one number. Writes benchmarks/results/routes.json.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import measuring
import torch
from napari_maskinversion.engine.invert.sampling import sample_queries

from napari_maskinversion.engine.encode.image_encoding import LayerConstants
from napari_maskinversion.engine.explain.projections import DecomposedRoute, DirectRoute, decompose
from napari_maskinversion.engine.invert import routes

# Width, joint dimension: the demo model's size, ViT-S, ViT-B.
TOWERS = {"small": (192, 128), "ViT-S": (384, 384), "ViT-B": (768, 512)}
GRIDS = (14, 28)
STRIDES = (1, 3)
MASKS = (1, 2, 5, 10, 25, 50, 100, 500)
STEPS = (5, 10, 30, 100)
GROUPS = (1, 5, 10, 50)
MEMORY = 8 * 2**30
# Query tokens of the measured decomposition, scaled up afterwards.
ROWS = 16
AIM = 1.3


def layer(width: int, joint: int, grid: int) -> LayerConstants:
    """Random constants; only their shapes matter to the time."""
    tokens, hidden = grid * grid + 1, 4 * width
    return LayerConstants(
        values=torch.randn(width // 64, tokens, 64),
        jacobian=torch.randn(joint, width),
        out=torch.randn(width, width),
        down=torch.randn(width, hidden),
        # As after `encode_steps`.
        mixed=torch.randn(width, hidden).T,
        slope=torch.randn(tokens, hidden),
        bend=torch.randn(tokens, hidden),
        offset=torch.randn(tokens, width),
    )


def best(call: Any, rounds: int) -> float:
    call()
    return min(measuring.timed(call) for _ in range(rounds))


def passes_of(route: Any, constants: LayerConstants, group: int, rounds: int) -> float:
    """Seconds of one evaluation for a group of masks, the mean of forward and backward."""
    joint, queries, width = len(constants.jacobian), len(constants.slope), len(constants.out)
    embeddings, out = torch.randn(group, joint), torch.empty(group, queries, width)
    grad = torch.randn_like(out)

    def both() -> None:
        route.project(embeddings, out)
        route.vjp(grad)

    return best(both, rounds) / 2


def measure(name: str, grid: int, stride: int, rounds: int) -> dict[str, Any]:
    constants = sample_queries(layer(*TOWERS[name], grid), (grid, grid), stride)[0]
    queries, hidden = constants.slope.shape
    joint, width = constants.jacobian.shape
    first_rows = replace(constants, slope=constants.slope[:ROWS], bend=constants.bend[:ROWS])
    first_rows = replace(first_rows, offset=constants.offset[:ROWS])

    def build() -> None:
        for _ in decompose(first_rows, ROWS):
            pass

    build_s = best(build, rounds) * queries / ROWS
    direct = DirectRoute(constants)
    whole = DecomposedRoute(torch.randn(queries, joint, width))
    measured_build: dict[str, Any] = {"build": build_s}
    for group in GROUPS:
        measured_build[f"direct:{group}"] = passes_of(direct, constants, group, rounds)
        measured_build[f"decomposed:{group}"] = passes_of(whole, constants, group, rounds)
    few, many = GROUPS[0], GROUPS[-1]
    operation = measured_build[f"direct:{many}"] / (many * queries * hidden * width)
    numbers = joint * queries * width
    # t(M) = M * numbers * operation' + numbers * reading.
    slope = (measured_build[f"decomposed:{many}"] - measured_build[f"decomposed:{few}"]) / (
        many - few
    )
    reading = max(0.0, measured_build[f"decomposed:{few}"] - slope) / numbers
    measured_build["read_in_operations"] = round(reading / operation, 1)
    measured_build["decomposed_operation"] = round(slope / numbers / operation, 2)
    cases, worst = [], 1.0
    for masks in MASKS:
        group = max(size for size in GROUPS if size <= masks)
        for steps in STEPS:
            passes = 2 * masks * steps
            times = {
                "direct": passes * measured_build[f"direct:{group}"] / group,
                "decomposed": build_s + passes * measured_build[f"decomposed:{group}"] / group,
            }
            plan = routes.choose_route(constants, passes, masks, MEMORY)
            chosen = "decomposed" if plan.decomposed else "direct"
            ratio = times[chosen] / min(times.values())
            worst = max(worst, ratio)
            cases.append(
                {
                    "masks": masks,
                    "steps": steps,
                    "chosen": chosen,
                    "ratio": round(ratio, 3),
                    **{f"{route}_s": round(value, 4) for route, value in times.items()},
                }
            )
    measured = {key: round(value, 6) for key, value in measured_build.items()}
    return {"queries": queries, "worst": round(worst, 3), "measured": measured, "cases": cases}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--towers", nargs="+", default=list(TOWERS), choices=TOWERS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "routes.json")
    chosen = parser.parse_args()
    print("| tower | grid | stride | chosen over best, worst case | reading, in operations |")
    print("|---|---|---|---|---|")
    slowest = 1.0
    for name in chosen.towers:
        for grid in GRIDS:
            for stride in STRIDES:
                row = measure(name, grid, stride, chosen.rounds)
                row["gemm_gflops"] = round(measuring.gemm_gflops())
                row["_READ"] = routes._READ
                measuring.keep(chosen.out, f"{name}:{grid}:stride{stride}", row)
                slowest = max(slowest, row["worst"])
                read = row["measured"]["read_in_operations"]
                print(f"| {name} | {grid} | {stride} | {row['worst']:.2f} x | {read} |", flush=True)
    print(f"\nWorst {slowest:.2f} x; aim {AIM} x: {'kept' if slowest <= AIM else 'MISSED'}.")


if __name__ == "__main__":
    main()
