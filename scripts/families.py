"""Test which of open_clip's image towers can be explained: build one per family and invert once.

    python scripts/families.py --into benchmarks/results/image-towers.md

The image tower only, with random weights and its depth cut to two, so nothing is fetched. Writes
the table between the two marks of the page.
"""

from __future__ import annotations

import argparse
import copy
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import timm
import torch
from open_clip import factory, timm_model
from open_clip.model import _build_vision_tower

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.engine.models.openclip import own_tokenizer, unsupported_text
from napari_maskinversion.engine.models.towers import (
    tower_of,
    unsupported_config,
    unsupported_tower,
)

BEGIN, END = "<!-- families -->", "<!-- end of families -->"
# Family by the start of an architecture's name; the first match counts.
FAMILIES = (
    ("SigLIP 2", r"ViT-.*SigLIP2"),
    ("SigLIP", r"ViT-.*SigLIP|nllb-clip-.*-siglip"),
    ("CLIPA", r"ViT-.*CLIPA"),
    ("ViT with other text towers", r"ViT-.*worldwide|.*roberta|mt5|nllb"),
    ("ViT-S, ViT-M", r"ViT-[SM]-"),
    ("ViT-B", r"ViT-B-"),
    ("ViT-L", r"ViT-L-"),
    ("ViT-H", r"ViT-H-"),
    ("ViT-g, ViT-bigG, ViT-e", r"ViT-(g|bigG|e)-"),
    ("CoCa without pooler", r"coca_(base|roberta)"),
    ("CoCa", r"coca_"),
    ("PE-Core", r"PE-Core"),
    ("EVA-01", r"EVA01"),
    ("EVA-02, B and L", r"EVA02-[BL]"),
    ("EVA-02, E", r"EVA02-E"),
    ("MobileCLIP-B", r"MobileCLIP2?-B"),
    ("MobileCLIP2-L", r"MobileCLIP2-L"),
    ("MobileCLIP-S", r"MobileCLIP2?-S"),
    ("ViTamin", r"ViTamin"),
    ("timm ViT, mean-pooled", r"vit_medium"),
    ("timm ViT, relative positions", r"vit_relpos"),
    ("ConvNeXt", r"convnext"),
    ("ResNet", r"RN\d"),
    ("Swin", r"swin"),
)


@dataclass
class Row:
    """One family."""

    name: str
    members: list[str] = field(default_factory=list)
    built: str = ""
    tower: str = ""
    explainers: tuple[str, ...] = ()
    losses: tuple[float, float] | None = None
    reason: str = ""


def families() -> list[Row]:
    """Group all architectures of open_clip."""
    rows: dict[str, Row] = {}
    for name in sorted(factory._MODEL_CONFIGS):
        family = next((title for title, start in FAMILIES if re.match(start, name)), name)
        rows.setdefault(family, Row(family)).members.append(name)
    order = [title for title, _ in FAMILIES]
    return sorted(rows.values(), key=lambda row: order.index(row.name) if row.name in order else 99)


def build(architecture: str, layers: int = 2) -> torch.nn.Module:
    """Build an image tower of few layers with random weights."""
    config = copy.deepcopy(factory._MODEL_CONFIGS[architecture])
    vision = config["vision_cfg"]
    make: Callable[..., Any] = timm.create_model
    if vision.get("timm_model_name"):
        timm_model.timm.create_model = lambda *args, **more: make(*args, depth=layers, **more)
    else:
        vision["layers"] = layers
    try:
        torch.manual_seed(0)
        tower: torch.nn.Module = _build_vision_tower(
            config["embed_dim"], vision, bool(config.get("quick_gelu"))
        )
    finally:
        timm_model.timm.create_model = make
    return tower.eval().requires_grad_(False)


def examine(row: Row) -> None:
    """Build one member of a family and invert one mask with each of its maps."""
    row.built = min(row.members, key=_size)
    config = factory._MODEL_CONFIGS[row.built]
    row.reason = unsupported_config(config)
    if row.reason:
        return
    visual = build(row.built)
    row.reason = unsupported_tower(visual)
    if row.reason:
        return
    tower = tower_of(visual)
    row.tower, row.explainers = tower.family, tower.explainers
    side = 8 * tower.patch_size
    image = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(1))
    mask = np.zeros((1, side, side), dtype=bool)
    mask[0, : side // 2, side // 4 : side // 2] = True
    model: Any = SimpleNamespace(
        clip=SimpleNamespace(visual=visual), device=torch.device("cpu"), empty_prompt=lambda: None
    )
    inverter = MaskInverter(model)
    inverter.set_image_tensor(image)
    for name in row.explainers:
        losses = inverter.invert(mask, InversionConfig(explainer=name)).losses[0]
        if not np.isfinite(losses).all():
            row.reason = f"an inversion with {name} gave numbers that are not finite"
        if name == "legrad":
            row.losses = float(losses[0]), float(losses.min())


def _size(architecture: str) -> tuple[int, str]:
    config = factory._MODEL_CONFIGS[architecture]
    return int(config["embed_dim"]) + int(config["vision_cfg"].get("width", 0)), architecture


def texts_of(members: list[str]) -> str:
    """Return how to load models of these architectures with their text towers."""
    ways: dict[str, list[str]] = {}
    for name in members:
        config = factory._MODEL_CONFIGS[name]
        way = "by name, with transformers" if own_tokenizer(config) else "by name"
        if unsupported_text(config):
            way = "through `wrap_open_clip`"
        ways.setdefault(way, []).append(name)
    if len(ways) == 1:
        return next(iter(ways))
    usual = max(ways, key=lambda way: len(ways[way]))
    others = [f"{way}: {', '.join(names)}" for way, names in ways.items() if way != usual]
    return "; ".join([usual, *others])


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| family | architectures | explained | maps | texts | built; Dice loss, first and least |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        members = ", ".join(row.members)
        if row.reason:
            lines.append(f"| {row.name} | {members} | **no**: {row.reason} | | | |")
            continue
        losses = "" if row.losses is None else f"; {row.losses[0]:.2f}, {row.losses[1]:.2f}"
        maps = ", ".join(row.explainers)
        explained, texts = f"yes, {row.tower}", texts_of(row.members)
        cells = (row.name, members, explained, maps, texts, row.built + losses)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Examine all families, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, help="Page to write the table into.")
    parser.add_argument("--only", help="Regular expression for the families to examine.")
    chosen = parser.parse_args()
    rows = [row for row in families() if not chosen.only or re.search(chosen.only, row.name)]
    for row in rows:
        begun = time.perf_counter()
        examine(row)
        print(row.name, row.reason or row.explainers, f"{time.perf_counter() - begun:.0f} s")
    text = table(rows)
    print(text)
    if chosen.into:
        page = chosen.into.read_text("utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        chosen.into.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
