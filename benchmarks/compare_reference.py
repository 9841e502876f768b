"""Compare the published implementation with this one on this machine.

    python benchmarks/compare_reference.py --prepare
    python benchmarks/compare_reference.py --only published:5x448 exact:5x448 default:5x448

The published packages get a virtual environment of their own (``--environment``). Every
implementation and case runs in a fresh process: seconds of whole calls (image and masks, K = 10,
float32, ViT-B/16 with random weights from one seed, a sample image), median of ``--repeat``. Rows
are merged into the JSON file after every call, each with its date, command and the rate of a matrix
product that was measured in its process, so that a long comparison can be made in pieces. Cases are
"masks x pixels". "At equal rate" is the ratio of the seconds times the rates of that product.
"-blas": products by torch's BLAS only; "-500mb": with a memory budget of 500 MB; "-half": the model
in half precision, its cosine to float32.

On a GPU (nobody has run this yet), for any of open_clip's towers, into a file of its own:

    python benchmarks/compare_reference.py --device cuda --architecture ViT-L-14 --out FILE \\
        --only published:100x448 exact:100x448 exact-half:100x448 default:100x448
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np

PUBLISHED = ("maskinversion-torch==1.1", "legrad-torch==1.1", "open-clip-torch==2.23.0")
FAST: dict[str, bool] = {"exact": False, "fast": True}
# The same with every product left to torch's BLAS, as where oneDNN is not faster.
WITHOUT_ONEDNN = "-blas"
# The same with the model in half precision.
HALF = "-half"
# The same with a budget of 500 MB instead of an eighth of the machine's memory.
SMALL = "-500mb"
KINDS = (WITHOUT_ONEDNN, HALF, SMALL)
FAST |= {f"{mode}{kind}": FAST[mode] for kind in KINDS for mode in tuple(FAST)}
IMPLEMENTATIONS = ("published", *FAST)
# At a hundred masks of 448 px the published implementation runs out of 24 GB.
CASES = ("5x448", "50x224", "100x448")
TOO_LARGE = {"published:100x448"}
AIMS = {"exact:5x448": 7.5, "fast:5x448": 18, "exact:50x224": 14, "fast:50x224": 30}
DEFAULT_ENVIRONMENT = Path(tempfile.gettempdir()) / "napari-maskinversion-published"


def prepare(folder: Path) -> Path:
    """Create the environment of the published packages if it is missing; return its Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = folder / "complete"
    if done.exists():
        return python
    if shutil.which("uv"):
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, folder], check=True)
        install = ["uv", "pip", "install", "-q", "--python", str(python)]
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [str(python), "-m", "pip", "install", "-q"]
    subprocess.run([*install, *PUBLISHED], check=True)
    done.touch()
    return python


def published(clip: Any, side: int, masks: np.ndarray) -> tuple[Any, tuple[str, ...]]:
    import torch
    from maskinversion import MaskInversion

    device = clip.logit_scale.device
    model = MaskInversion(clip.requires_grad_(True), iterations=10)
    image = measuring.picture(side).to(device)
    targets = torch.from_numpy(masks).float().to(device)

    def call() -> np.ndarray:
        heatmaps = model.compute_maskinversion(image=image, masks_target=targets)
        return np.asarray(heatmaps.detach().cpu().numpy())

    return call, tuple(name.split("==")[0] for name in PUBLISHED)


def ours(
    clip: Any, implementation: str, side: int, masks: np.ndarray
) -> tuple[Any, tuple[str, ...]]:
    from napari_maskinversion import InversionConfig, MaskInverter, wrap_open_clip

    budget = 500 if implementation.endswith(SMALL) else None
    inverter = MaskInverter(wrap_open_clip(clip), memory_mb=budget)
    image = measuring.picture(side).to(clip.logit_scale)
    config = InversionConfig(fast=FAST[implementation])

    def call() -> np.ndarray:
        inverter.set_image_tensor(image)
        return np.asarray(inverter.invert(masks, config).raw_embeddings)

    return call, ("napari-maskinversion", "open-clip-torch")


def worker(chosen: argparse.Namespace) -> None:
    """Measure one implementation; print a line of JSON after every call."""
    import torch

    name, device = chosen.worker, chosen.device
    implementation, case = name.split(":")
    count, side = (int(part) for part in case.split("x"))
    masks = measuring.boxes(count, side)
    if implementation.endswith(WITHOUT_ONEDNN):
        torch.backends.mkldnn.set_flags(False)
    with contextlib.redirect_stdout(sys.stderr):
        clip = measuring.random_clip(chosen.architecture).to(device)
        if implementation.endswith(HALF):
            clip = clip.to(torch.bfloat16 if device == "cpu" else torch.float16)
        call, packages = (
            published(clip, side, masks)
            if implementation == "published"
            else ours(clip, implementation, side, masks)
        )
    rate = measuring.gemm_gflops(device=device)
    before, seconds = measuring.peak_mb(), []
    for _ in range(chosen.repeat):
        measuring.wait_for(device)
        start = time.perf_counter()
        with contextlib.redirect_stdout(sys.stderr):
            outcome = call()
        seconds.append(round(time.perf_counter() - start, 3 if device == "cpu" else 5))
        np.save(chosen.out, outcome)
        line = {
            "name": name,
            "seconds": round(statistics.median(seconds), 5),
            "runs": seconds,
            "gemm_gflops": round(max(rate, measuring.gemm_gflops(device=device))),
            "peak_mb": measuring.peak_mb(),
            "beyond_model_mb": measuring.peak_mb() - before,
            "threads": torch.get_num_threads(),
            "versions": measuring.versions("torch", *packages),
        }
        if device != "cpu":
            line["device"] = torch.cuda.get_device_name() if device == "cuda" else device
            line["architecture"] = chosen.architecture
        print(json.dumps(line), flush=True)


def table(rows: dict[str, Any]) -> str:
    lines = [
        "| work | implementation | seconds | fastest, slowest | runs | ratio "
        "| at equal rate | aim | cosine | beyond the model, MB | GFLOP/s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = {n: i for i, n in enumerate(f"{a}:{c}" for c in CASES for a in IMPLEMENTATIONS)}
    for name in sorted(rows, key=lambda n: order.get(n, len(order))):
        row, (implementation, case) = rows[name], name.split(":")
        theirs = rows.get(f"published:{case}")
        ratio = equal = "-"
        if theirs:
            # Other work on the machine may have come or gone between the two.
            factor = theirs["seconds"] / row["seconds"]
            scaled = factor * theirs["gemm_gflops"] / row["gemm_gflops"]
            ratio, equal = f"{factor:.1f} x", f"{scaled:.1f} x"
        cosine = f"{row['cosine_min']:.5f}" if "cosine_min" in row else "-"
        lines.append(
            f"| {case.replace('x', ' masks, ')} px | {implementation} | {row['seconds']:.2f} "
            f"| {min(row['runs']):.2f}, {max(row['runs']):.2f} | {len(row['runs'])} "
            f"| {ratio} | {equal} | {AIMS.get(name, '-')} | {cosine} "
            f"| {row['beyond_model_mb']} | {row['gemm_gflops']} |"
        )
    return "\n".join(lines)


def lowest_cosine(one: Path, other: Path) -> float | None:
    """Return the lowest cosine between embeddings of two implementations, if both exist."""
    if not (one.exists() and other.exists()):
        return None
    a, b = (np.load(path).astype(np.float64) for path in (one, other))
    products = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    return round(float(products.min()), 6)


def measure(name: str, chosen: argparse.Namespace) -> None:
    case = name.split(":")[1]
    environment: Path = chosen.environment
    python = prepare(environment) if name.startswith("published") else Path(sys.executable)
    kept = environment.with_name(environment.name + "-embeddings")
    if chosen.device != "cpu" or chosen.architecture != "ViT-B-16":
        kept = kept.with_name(f"{kept.name}-{chosen.device}-{chosen.architecture}")
    kept.mkdir(exist_ok=True)
    other = name.replace(HALF, "") if HALF in name else f"published:{case}"
    mine, theirs = (kept / f"{n.replace(':', '-')}.npy" for n in (name, other))
    command = [str(python), __file__, "--worker", name, "--repeat", str(chosen.repeat)]
    command += ["--device", chosen.device, "--architecture", chosen.architecture]
    with subprocess.Popen([*command, "--out", str(mine)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            row = json.loads(line)
            if mine != theirs and (cosine := lowest_cosine(mine, theirs)) is not None:
                row["cosine_min"] = cosine
            measuring.keep(chosen.out, row.pop("name"), row)
    if run.returncode:
        raise SystemExit(f"{name} ended with exit status {run.returncode}; see its message above.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everything = [f"{a}:{c}" for c in CASES for a in IMPLEMENTATIONS]
    usual = [name for name in everything if name not in TOO_LARGE and HALF not in name]
    parser.add_argument("--only", nargs="*", default=usual, choices=everything)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "compare_reference.json")
    parser.add_argument("--environment", type=Path, default=DEFAULT_ENVIRONMENT)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--architecture", default="ViT-B-16")
    parser.add_argument("--prepare", action="store_true", help="only make the environment")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        worker(chosen)
    elif chosen.prepare:
        prepare(chosen.environment)
        print(f"The published packages are ready in {chosen.environment}.")
    else:
        for name in chosen.only:
            measure(name, chosen)
        print(table(measuring.read(chosen.out)["rows"]))


if __name__ == "__main__":
    main()
