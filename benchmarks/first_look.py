"""How long the sample scenes take: ``python benchmarks/first_look.py``.

Each scene is labelled three times by `label_regions` with the bundled model, which is loaded
before; the second and third time are kept. The command ``demo`` shows the first scene, and takes
some 30 s more for imports and the window.
"""

from __future__ import annotations

import time

from measuring import RESULTS, keep

import napari_maskinversion as nmi
from napari_maskinversion.images.sample_scenes import load_scene, scene_names


def seconds(scene: object, model: object) -> float:
    start = time.perf_counter()
    nmi.label_regions(scene.image, scene.regions, scene.vocabulary, model=model)
    return time.perf_counter() - start


def main() -> None:
    model = nmi.load_model("demo", device="cpu")
    for name in scene_names():
        scene = load_scene(name)
        times = [seconds(scene, model) for _ in range(3)][1:]
        row = {"seconds": round(min(times), 3), "fingerprint": model.fingerprint}
        keep(RESULTS / "first_look.json", scene.title, row)
        print(scene.title, row)


if __name__ == "__main__":
    main()
