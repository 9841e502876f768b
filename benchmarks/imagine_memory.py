"""Size and memory of the published decoders of `imagine`: ``python benchmarks/imagine_memory.py``.

Counts the parameters of their architectures. Builds the parts that turn latents into pixels, which
take most, with random weights, and decodes one picture with each in a process of its own on the
CPU. Keeps the counts, and the memory that was taken above the weights, in
benchmarks/results/imagine-memory.json.
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
_UNCLIP = {
    "attention_head_dim": (5, 10, 20, 20),
    "class_embed_type": "projection",
    "cross_attention_dim": 1024,
    "use_linear_projection": True,
}
UNETS: dict[str, dict[str, Any]] = {
    "unet kandinsky22": {
        "addition_embed_type": "image",
        "attention_head_dim": 64,
        "block_out_channels": (384, 768, 1152, 1536),
        "cross_attention_dim": 768,
        "down_block_types": ("ResnetDownsampleBlock2D", *["SimpleCrossAttnDownBlock2D"] * 3),
        "encoder_hid_dim": 1280,
        "encoder_hid_dim_type": "image_proj",
        "layers_per_block": 3,
        "mid_block_type": "UNetMidBlock2DSimpleCrossAttn",
        "out_channels": 8,
        "resnet_time_scale_shift": "scale_shift",
        "up_block_types": (*["SimpleCrossAttnUpBlock2D"] * 3, "ResnetUpsampleBlock2D"),
    },
    "unet unclip-h": _UNCLIP | {"projection_class_embeddings_input_dim": 2 * 1024},
    "unet unclip-l": _UNCLIP | {"projection_class_embeddings_input_dim": 2 * 768},
}
TEXT_ENCODER = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 23}
CALLS = (
    ("movq", 256, "float32"),
    ("movq", 512, "float32"),
    ("vae", 512, "float32"),
)


def count() -> dict[str, int]:
    """Return the parameters of the parts that are not run, by their architectures."""
    import torch
    from diffusers import UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    with torch.device("meta"):
        modules: dict[str, Any] = {n: UNet2DConditionModel(**UNETS[n]) for n in UNETS}
        modules["text encoder unclip"] = CLIPTextModel(CLIPTextConfig(**TEXT_ENCODER))
    return {name: sum(p.numel() for p in one.parameters()) for name, one in modules.items()}


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
    sizes = {"parameters": parameters, "gb": round(4 * parameters / 1e9, 2)}
    return sizes | {"peak_gb": round(peak / 1e9, 2)}


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
    """Count and measure everything, or make the one call that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--call", nargs=3)
    named = parser.parse_args().call
    if named:
        print(json.dumps(one(named[0], int(named[1]), named[2])))
        return
    for name, parameters in count().items():
        row = {"parameters": parameters, "gb": round(4 * parameters / 1e9, 2)}
        measuring.keep(OUT, name, row)
        print(name, row, flush=True)
    for call in CALLS:
        words = [sys.executable, __file__, "--call", *map(str, call)]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        row = json.loads(told.splitlines()[-1])
        measuring.keep(OUT, " ".join(map(str, call)), row)
        print(call, row, flush=True)


if __name__ == "__main__":
    main()
