"""Peak memory of the published decoders of `imagine`: ``python benchmarks/imagine_memory.py``.

Builds the parts that turn latents into pixels, which take most, as published but with random
weights; counts their parameters, and makes one call of each in a process of its own on the CPU;
keeps what it took at most above the weights in benchmarks/results/imagine-memory.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measuring

OUT = Path(__file__).parent / "results" / "imagine-memory.json"
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "movq": (
        "VQModel",
        {
            "block_out_channels": (128, 256, 256, 512),
            "down_block_types": (*["DownEncoderBlock2D"] * 3, "AttnDownEncoderBlock2D"),
            "up_block_types": ("AttnUpDecoderBlock2D", *["UpDecoderBlock2D"] * 3),
            "latent_channels": 4,
            "layers_per_block": 2,
            "norm_type": "spatial",
            "num_vq_embeddings": 16384,
            "vq_embed_dim": 4,
        },
    ),
    "vae": (
        "AutoencoderKL",
        {
            "block_out_channels": (128, 256, 512, 512),
            "down_block_types": ("DownEncoderBlock2D",) * 4,
            "up_block_types": ("UpDecoderBlock2D",) * 4,
            "latent_channels": 4,
            "layers_per_block": 2,
        },
    ),
}
CALLS = (
    ("movq", 256, "float32"),
    ("movq", 512, "float32"),
    ("vae", 512, "float32"),
)


def one(part: str, side: int, dtype: str) -> dict[str, Any]:
    """Decode the latents of one picture."""
    import diffusers
    import torch

    torch.manual_seed(0)
    kind, config = PARTS[part]
    torch.set_default_dtype(getattr(torch, dtype))
    module = getattr(diffusers, kind)(**config).eval()
    parameters = sum(p.numel() for p in module.parameters())
    latents = torch.randn(1, 4, side // 8, side // 8)
    more = {"force_not_quantize": True} if part == "movq" else {}
    with torch.no_grad():
        peak = peak_above(lambda: module.decode(latents, **more))
    return {"parameters": parameters, "peak_gb": round(peak / 1e9, 2)}


def resident() -> int:
    """Return the memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_above(work: Callable[[], Any]) -> int:
    """Return the most memory in bytes that a call takes above what is taken before."""
    gc.collect()
    before, seen, over = resident(), [0], threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            seen.append(resident())

    watcher = threading.Thread(target=look)
    watcher.start()
    work()
    over.set()
    watcher.join()
    return max(seen) - before


def main() -> None:
    """Measure all calls, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--call", nargs=3)
    named = parser.parse_args().call
    if named:
        print(json.dumps(one(named[0], int(named[1]), named[2])))
        return
    for call in CALLS:
        words = [sys.executable, __file__, "--call", *map(str, call)]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        row = json.loads(told.splitlines()[-1])
        measuring.keep(OUT, " ".join(map(str, call)), row)
        print(call, row, flush=True)


if __name__ == "__main__":
    main()
