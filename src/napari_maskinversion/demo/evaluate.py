"""Measure the bundled model: ``python -m napari_maskinversion.demo.evaluate --scenes 200``.

The scenes are composed from seeds that training never used. Regions go through the engine that the
plugin uses; the other ways to embed a region are computed here, plainly.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_maskinversion.core.backbone import Backbone, load_model
from napari_maskinversion.core.config import InversionConfig
from napari_maskinversion.core.predictor import MaskInverter

from .maps import encode
from .model import normalise, write_whole
from .probe import PROMPT, crops, token_means
from .scenes import compose, generator, pyramid
from .sprites import SEEN_STYLES, UNSEEN_STYLE, SpriteError, load_sprites
from .vocabulary import DRAWN, NAMES

SIDE: Final = 256  # pixels of a scene
LEAST: Final = 0.008  # share of a scene that every object has to show
WAYS: Final[dict[str, str]] = {
    "maskinversion": "MaskInversion",
    "cls": "CLIP [CLS]",
    "maskclip": "MaskCLIP-like (mean of value tokens)",
    "crop": "Crop",
    "masked_crop": "Masked Crop",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene as a user has it: an image and masks."""

    image: NDArray[np.uint8]  # (H, W, 3)
    masks: NDArray[np.bool_]  # (M, H, W)
    labels: NDArray[np.int64]  # (M,), index into the names


def draw_scenes(
    sprites: list[Tensor], count: int, objects: int, *, first_seed: int
) -> Iterator[Scene]:
    """Draw `count` scenes; a seed whose scene hides an object almost wholly is passed over."""
    seed = first_seed
    for _ in range(count):
        while True:
            scene = compose(sprites, generator("test", seed), torch.tensor([objects]), (SIDE, SIDE))
            seed += 1
            masks = scene.visible[0].numpy() > 0.5
            if masks.mean((1, 2)).min() >= LEAST:
                break
        image = (scene.images[0].permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
        yield Scene(image, masks, scene.labels[0].numpy())


class Measurement:
    """A model, the embeddings of the names, and the resolution to work at."""

    def __init__(self, model: Backbone, resolution: int, config: InversionConfig) -> None:
        self.model = model
        self.visual: Any = model.clip.visual
        self.resolution = resolution
        self.config = config
        self.names = model.encode_text([PROMPT.format(n) for n in NAMES])
        self.inverter = MaskInverter(model)

    def hits(self, embeddings: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (N, 2): is the right name first; is it among the first five."""
        order = (-(embeddings @ self.names.T)).argsort(1)[:, :5] == labels[:, None]
        return np.stack([order[:, 0], order.any(1)], 1)

    def whole(self, scene: Scene) -> NDArray[np.bool_]:
        """Name a scene of one object by its image embedding, at the native resolution."""
        tensor = self.model.preprocess(scene.image, resolution=self.model.native_resolution)
        with torch.no_grad():
            found = encode(self.visual, tensor).embedding.numpy()
        return self.hits(found, scene.labels)

    def regions(self, scene: Scene) -> tuple[dict[str, NDArray[np.bool_]], NDArray[np.float64]]:
        """Name each region in every way; also the heatmaps' overlap with the masks."""
        self.inverter.set_image(scene.image, resolution=self.resolution)
        result = self.inverter.invert(scene.masks, self.config)
        found = {"maskinversion": result.embeddings}
        found["cls"] = np.repeat(self.inverter.image_embedding[None], len(scene.masks), 0)
        rgb = torch.from_numpy(scene.image).permute(2, 0, 1)[None].float() / 255
        masks = torch.from_numpy(scene.masks)[None].float()
        native = self.model.native_resolution
        with torch.no_grad():
            tensor = self.model.preprocess(scene.image, resolution=self.resolution)
            image = encode(self.visual, tensor)
            found["maskclip"] = token_means(self.visual, image, masks)[0].numpy()
            for key, masked in (("crop", False), ("masked_crop", True)):
                cut = normalise(crops(rgb, masks, native, masked=masked)[0])
                found[key] = encode(self.visual, cut).embedding.numpy()
        hot = result.heatmaps > 0.5
        both = (hot & scene.masks).sum((1, 2)) / np.maximum((hot | scene.masks).sum((1, 2)), 1)
        return {k: self.hits(v, scene.labels) for k, v in found.items()}, both


def evaluate(
    model: Backbone,
    folder: Path | None = None,
    *,
    scenes: int = 200,
    resolution: int | None = None,
    objects: int = 3,
    config: InversionConfig | None = None,
) -> dict[str, Any]:
    """Measure a model on fresh scenes.

    Parameters
    ----------
    model : Backbone
        From `load_model`, on the CPU.
    folder : Path, optional
        A ``node_modules`` folder with the emoji sets; default as for `load_sprites`.
    scenes : int
        Scenes of each kind.
    resolution : int, optional
        Working resolution of the inversion; default the model's own.
    objects : int
        Objects in the scenes whose regions are asked for.
    config : InversionConfig, optional
        Default 10 steps at learning rate 0.1.

    Returns
    -------
    dict
        Shares from 0 to 1, ready for JSON.
    """
    config = config or InversionConfig(steps=10, learning_rate=0.1)
    measured = Measurement(model, resolution or model.working_resolution, config)
    out: dict[str, Any] = {
        "scenes": scenes,
        "names": len(NAMES),
        "resolution": measured.resolution,
        "steps": config.steps,
        "learning_rate": config.learning_rate,
        "single": {},
        "regions": {},
    }
    for i, (kind, styles) in enumerate((("seen", SEEN_STYLES), ("unseen", (UNSEEN_STYLE,)))):
        sprites = pyramid(load_sprites(folder, size=SIDE, names=DRAWN, styles=styles), levels=4)
        first = 1_000_000 * i
        singles = [measured.whole(s) for s in draw_scenes(sprites, scenes, 1, first_seed=first)]
        top1, top5 = np.concatenate(singles).mean(0)
        out["single"][kind] = {"top1": float(top1), "top5": float(top5)}
        drawn = draw_scenes(sprites, scenes, objects, first_seed=first + 500_000)
        rows = [measured.regions(s) for s in drawn]
        table: dict[str, Any] = {
            way: dict(
                zip(
                    ("top1", "top5"),
                    map(float, np.concatenate([r[0][way] for r in rows]).mean(0)),
                    strict=True,
                )
            )
            for way in WAYS
        }
        table["maskinversion"]["iou"] = float(np.concatenate([r[1] for r in rows]).mean())
        out["regions"][kind] = table
    return out


def report(found: dict[str, Any]) -> str:
    """Lay the figures out as a Markdown table, in percent."""
    lines = [
        f"{found['scenes']} scenes of each kind, {found['names']} names, inversion at "
        f"{found['resolution']} px, {found['steps']} steps, learning rate "
        f"{found['learning_rate']}; top-1 / top-5 in %",
        "",
        f"| | styles seen in training | unseen style ({UNSEEN_STYLE}) |",
        "|---|---|---|",
    ]

    def row(title: str, cells: list[dict[str, float]]) -> str:
        shown = [f"{100 * c['top1']:.1f} / {100 * c['top5']:.1f}" for c in cells]
        return f"| {title} | {' | '.join(shown)} |"

    kinds = ("seen", "unseen")
    lines.append(row("one object, image embedding", [found["single"][k] for k in kinds]))
    for way, title in WAYS.items():
        lines.append(row(f"region: {title}", [found["regions"][k][way] for k in kinds]))
    overlap = [f"{found['regions'][k]['maskinversion']['iou']:.2f}" for k in kinds]
    lines.append(f"| heatmap-to-mask IoU | {' | '.join(overlap)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the bundled demo model.")
    parser.add_argument("--scenes", type=int, default=200, help="scenes of each kind (200)")
    parser.add_argument("--resolution", type=int, help="working resolution in pixels")
    parser.add_argument("--objects", type=int, default=3, choices=range(1, 6))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--model", default="demo", help="a model's folder, default the bundled one")
    parser.add_argument("--sprites", type=Path, help="a node_modules folder with the emoji sets")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args(arguments)
    if given.scenes < 1:
        parser.error(f"--scenes must be at least 1; got {given.scenes}")
    model = load_model(given.model, device="cpu")
    config = InversionConfig(steps=given.steps, learning_rate=given.learning_rate)
    try:
        found = evaluate(
            model,
            given.sprites,
            scenes=given.scenes,
            resolution=given.resolution,
            objects=given.objects,
            config=config,
        )
    except SpriteError as error:
        parser.exit(2, f"{error}\n")
    print(report(found))
    print(json.dumps(found))
    if given.json:
        write_whole(given.json, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
