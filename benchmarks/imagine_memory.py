"""Peak memory of the published decoders of `imagine`: ``python benchmarks/imagine_memory.py``.

Builds the published architectures with random weights, counts their parameters, and makes one call
of each part in a process of its own on the CPU; keeps what the process took at most above its
weights in benchmarks/results/imagine-memory.json. Takes some minutes and 4 GB.
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
DOWN, UP = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"
SIMPLE_DOWN, SIMPLE_UP = "SimpleCrossAttnDownBlock2D", "SimpleCrossAttnUpBlock2D"
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
    "unet-unclip": (
        "UNet2DConditionModel",
        {
            "sample_size": 96,
            "attention_head_dim": (5, 10, 20, 20),
            "cross_attention_dim": 1024,
            "use_linear_projection": True,
            "class_embed_type": "projection",
            "projection_class_embeddings_input_dim": 2048,
        },
    ),
    "unet-kandinsky": (
        "UNet2DConditionModel",
        {
            "sample_size": 64,
            "out_channels": 8,
            "layers_per_block": 3,
            "block_out_channels": (384, 768, 1152, 1536),
            "attention_head_dim": 64,
            "cross_attention_dim": 768,
            "encoder_hid_dim": 1280,
            "encoder_hid_dim_type": "image_proj",
            "addition_embed_type": "image",
            "resnet_time_scale_shift": "scale_shift",
            "down_block_types": ("ResnetDownsampleBlock2D", *[SIMPLE_DOWN] * 3),
            "mid_block_type": "UNetMidBlock2DSimpleCrossAttn",
            "up_block_types": (*[SIMPLE_UP] * 3, "ResnetUpsampleBlock2D"),
        },
    ),
}
CALLS = (
    ("movq", 256, "float32"),
    ("movq", 512, "float32"),
    ("vae", 512, "float32"),
    ("vae", 768, "float32"),
    ("unet-unclip", 768, "bfloat16"),
    ("unet-kandinsky", 256, "bfloat16"),
)


def one(part: str, side: int, dtype: str) -> dict[str, Any]:
    """Make one call; two pictures at a time for a UNet, as guidance needs."""
    import diffusers
    import torch

    torch.manual_seed(0)
    kind, config = PARTS[part]
    torch.set_default_dtype(getattr(torch, dtype))
    module = getattr(diffusers, kind)(**config).eval()
    parameters = sum(p.numel() for p in module.parameters())
    batch = 1 if part in ("movq", "vae") else 2
    latents = torch.randn(batch, 4, side // 8, side // 8)
    with torch.no_grad():
        if part == "movq":
            work = lambda: module.decode(latents, force_not_quantize=True)  # noqa: E731
        elif part == "vae":
            work = lambda: module.decode(latents)  # noqa: E731
        elif part == "unet-unclip":
            text, level = torch.randn(batch, 77, 1024), torch.randn(batch, 2048)
            work = lambda: module(latents, 10, text, class_labels=level)  # noqa: E731
        else:
            more = {"image_embeds": torch.randn(batch, 1280)}
            work = lambda: module(latents, 10, None, added_cond_kwargs=more)  # noqa: E731
        peak = peak_above(work)
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
    rows = {}
    for call in CALLS:
        words = [sys.executable, __file__, "--call", *map(str, call)]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        rows[" ".join(map(str, call))] = json.loads(told.splitlines()[-1])
        print(call, rows[" ".join(map(str, call))], flush=True)
    measuring.write(OUT, {**measuring.about(), "rows": rows})


if __name__ == "__main__":
    main()
