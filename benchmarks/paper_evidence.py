"""What the generators make of the sample scenes: ``python benchmarks/paper_evidence.py``.

Writes the captions of all sample scenes by the bundled decoder to benchmarks/results/
sample-captions.json, and docs/images/imagine-tiny.png: a region and [CLS] as a decoder of the
published classes with random weights draws them, which shows nothing but that the way is whole.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import measuring
import numpy as np
from PIL import Image

import napari_maskinversion as nmi
from napari_maskinversion.demo_model.scene_words import NAMES, names_in, names_of
from napari_maskinversion.images.sample_scenes import load_scene, scene_names

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "imagine-tiny.png"
SIDE = 128  # pixels of a picture on the page


def captions() -> None:
    """Keep a sentence about each region of each sample scene."""
    model = nmi.load_model("demo", device="cpu")
    known = names_of(NAMES)
    rows = []
    for name in scene_names():
        scene = load_scene(name)
        results = nmi.label_regions(
            scene.image, scene.regions, labels=None, model=model, captions="demo"
        )
        for region in results.regions:
            truth = scene.truth[region.id]
            right = truth in names_in(region.generated_caption, known)
            rows.append([name, region.id, truth, region.generated_caption, right])
    right = sum(row[-1] for row in rows)
    kept = {"fingerprint": model.fingerprint, "regions": len(rows), "right": right, "rows": rows}
    measuring.write(measuring.RESULTS / "sample-captions.json", {**measuring.about(), **kept})
    print(f"{right} of {len(rows)} sentences name their thing")


def picture() -> None:
    """Draw a region of the first scene and [CLS] by a tiny Kandinsky with random weights."""
    sys.path.insert(0, str(ROOT))
    from tests.tiny_decoders import kandinsky

    scene = load_scene(scene_names()[0])
    with tempfile.TemporaryDirectory() as folder:
        decoder = kandinsky(Path(folder))
        imagined = nmi.imagine(
            scene.image,
            scene.regions,
            min(scene.truth),
            weights=decoder,
            seed=7,
            size=SIDE,
            steps=10,
        )
    shown = np.hstack([one.pixels for one in imagined.pictures])
    Image.fromarray(shown).save(PICTURE, optimize=True)
    print(f"Wrote {PICTURE}: {', '.join(f'{p.title}, seed {p.seed}' for p in imagined.pictures)}")


if __name__ == "__main__":
    captions()
    picture()
