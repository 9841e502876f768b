"""Shared by the speed benchmarks: inputs, the machine's own rate, and results in JSON.

Imports torch only where it is used, so that it also works in the published packages' environment
and so that a parent process stays small.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
SAMPLE = ROOT / "sample_data" / "from-above.png"


def gemm_gflops(rounds: int = 12, device: str = "cpu") -> float:
    """Measure the best rate of torch's float32 matrix product, in an inversion's largest shape."""
    import torch

    return _gflops(lambda a, b, out: torch.mm(a, b, out=out), rounds, device)


def engine_gflops(rounds: int = 12) -> float:
    """Measure like `gemm_gflops`, with the engine's product by the faster library."""
    from napari_maskinversion.engine.compute.matmul import multiply

    return _gflops(multiply, rounds)


def wait_for(device: str) -> None:
    """Wait until a GPU has finished."""
    import torch

    if device != "cpu":
        getattr(torch, device).synchronize()


def _gflops(multiply: Any, rounds: int, device: str = "cpu") -> float:
    import torch

    shapes = (1024, 3072), (3072, 768), (1024, 768)
    a, b, out = (torch.randn(*shape, device=device) for shape in shapes)

    def product() -> None:
        multiply(a, b, out)
        wait_for(device)

    product()
    return 2 * 1024 * 3072 * 768 / min(timed(product) for _ in range(rounds)) / 1e9


_clock = time.perf_counter


def use_one_thread() -> None:
    """Compute with one thread, and time its processor time: other programs hardly matter then."""
    global _clock
    import torch

    torch.set_num_threads(1)
    _clock = time.thread_time


def clock() -> float:
    """Return the seconds of the clock that is in use."""
    return _clock()


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    start = _clock()
    call()
    return _clock() - start


def boxes(count: int, side: int) -> np.ndarray:
    """Return boxes of 16 px to half the side, (count, side, side), bool; always the same."""
    rng = np.random.default_rng(0)
    masks = np.zeros((count, side, side), dtype=bool)
    for mask in masks:
        y, x = rng.integers(0, side - 40, 2)
        mask[y : y + rng.integers(16, side // 2), x : x + rng.integers(16, side // 2)] = True
    return masks


def picture(side: int) -> Any:
    """Return a sample image as a tensor (1, 3, side, side), float32; always the same.

    Not noise: how much "fast" saves depends on the similarity of an image's patches.
    """
    import torch
    from PIL import Image

    with Image.open(SAMPLE) as opened:
        pixels = np.asarray(opened.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))
    values = pixels.astype(np.float32)
    values = (values - values.mean((0, 1))) / values.std((0, 1))
    return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)[None]))


def random_clip(architecture: str = "ViT-B-16") -> Any:
    """Return an open_clip model with random weights; one version always makes the same."""
    import open_clip
    import torch

    torch.manual_seed(0)
    return open_clip.create_model(architecture, pretrained=None).eval().requires_grad_(False)


def peak_mb(*, children: bool = False) -> int:
    """Return the largest resident memory of this process so far, or of one it ran, in MiB."""
    import resource

    whose = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    used = resource.getrusage(whose).ru_maxrss
    return int(used // (2**20 if sys.platform == "darwin" else 2**10))


def versions(*packages: str) -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in packages}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def typed_command() -> str:
    """Return the command line as it was typed, without folders of this machine."""
    words = ["python"]
    for word in sys.orig_argv[1:]:
        path = Path(word)
        if path.is_relative_to(ROOT):
            words.append(path.relative_to(ROOT).as_posix())
        elif path.is_absolute():
            words.append(path.name)
        else:
            words.append(word)
    return shlex.join(words)


def load() -> float | None:
    """Return the load average; other work on the machine makes every time longer."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def processor() -> str:
    """Return the name of the processor, where the system tells it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def about() -> dict[str, Any]:
    """Return how, when and where a report was made."""
    return {
        "command": typed_command(),
        "date": now(),
        "machine": machine() | {"load_at_start": load()},
    }


def read(path: Path) -> dict[str, Any]:
    """Read the kept results, or return a frame for new ones."""
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return kept
    return {"machine": machine(), "rows": {}}


def keep(path: Path, name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Merge a row into the file, whole or not at all; rows of other names stay."""
    report = read(path)
    about = {"date": now(), "command": typed_command(), "load": load()}
    report["rows"][name] = {**about, **row}
    write(path, report)
    return report


def write(path: Path, report: dict[str, Any]) -> None:
    """Write results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
