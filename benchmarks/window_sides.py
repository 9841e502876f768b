"""Whether automatic windows may be encoded at half the side: ``python benchmarks/window_sides.py``.

CLIP of 224 px sees windows at twice the side that it was trained at. Here the demo model, trained
at 128 px, does the same: windows are planned and encoded at 256 px, and the same windows at 128 px
again. A window counts as coarse enough by the tokens that its smallest region has across at 128 px
("4": at least four). Regions are those of real images of the validation and test splits (up to 12
of a class and image), and of drawn scenes, 36 to a plane. Intervals are of whole images. Seconds
are processor time of one thread. Writes benchmarks/results/window-sides.json.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flags
import measuring
import numpy as np

from napari_maskinversion import MaskInverter, load_model
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.bench.measures.statistics import share
from napari_maskinversion.demo_model.domains import KINDS, NAMES, data_folder, load
from napari_maskinversion.images import windows
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.images.plane_source import read_reduced
from napari_maskinversion.images.windows import Window, plan_windows, regions_in

sys.path.append(str(Path(__file__).parents[1]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.cases import SceneSource, subject_of

TOKENS = (0, 4, 5, 6, 8)  # 0: every window
PER_CLASS = 12
ROWS = 6  # scenes along a side of a plane
PLANES = 4

Plane = tuple[Any, Regions, list[str]]  # pixels, regions, their names


def real(kind: str) -> Iterator[Plane]:
    """Yield the planes of a kind of real images."""
    folder = data_folder()
    assert folder is not None
    rng = np.random.default_rng(0)
    flags.PER_CLASS = PER_CLASS
    for split in ("validation", "test"):
        for picture in load(folder, split, [kind]):  # type: ignore[arg-type]
            yield (picture.pixels, *flags.some_regions(picture, rng))


def drawn(subject: Any, kind: str) -> Iterator[Plane]:
    """Yield planes of drawn scenes side by side."""
    scenes = SceneSource(subject, None).draw(kind, PLANES * ROWS**2, 4, "validation")
    for _ in range(PLANES):
        cases = [next(scenes) for _ in range(ROWS**2)]
        side = cases[0].image.shape[0]
        pixels = np.zeros((ROWS * side, ROWS * side, 3), np.uint8)
        labels = np.zeros(pixels.shape[:2], np.int32)
        names: list[str] = []
        for place, case in enumerate(cases):
            y, x = (side * at for at in divmod(place, ROWS))
            pixels[y : y + side, x : x + side] = case.image
            for mask, label in zip(case.masks, case.labels, strict=True):
                names.append(subject.names[int(label)])
                labels[y : y + side, x : x + side][mask] = len(names)
        yield pixels, Regions.from_labels(labels), names


def measured(model: Any, planes: Iterator[Plane], names: list[str], text: Any) -> list[Any]:
    """Return image, tokens, and right, overlap, seconds at both sides, of all in windows."""
    native, rows = model.native_resolution, []
    inverter = MaskInverter(model)

    def answers(source: Any, window: Window, local: Regions) -> tuple[Any, float]:
        crop = read_reduced(source, window.level, window.level_box, window.reduce)
        start = measuring.clock()
        inverter.set_image(crop, resolution=window.resolution)
        return inverter.invert(local), (measuring.clock() - start) / len(local)

    for number, (pixels, regions, truth) in enumerate(planes):
        source = as_source(pixels)
        planned = {"resolution": 2 * native, "patch": model.patch_size}
        usual = plan_windows(regions, source.levels, **planned)
        coarse = plan_windows(regions, source.levels, **planned, native=native)
        for window, other in zip(usual, coarse, strict=True):
            assert window.members == other.members
            if window.whole:
                continue
            boxes = np.array([regions[place].bbox for place in window.members])
            y0, x0, y1, x1 = window.box
            token = model.patch_size * math.sqrt((y1 - y0) * (x1 - x0)) / native
            tokens = float((boxes[:, 2:] - boxes[:, :2]).max(1).min() / token)
            both = [answers(source, one, regions_in(one, regions)) for one in (window, other)]
            for place, member in enumerate(window.members):
                row = [str(number), tokens]
                for result, seconds in both:
                    best = names[int((result.embeddings[place] @ text.T).argmax())]
                    row += [best == truth[member], float(result.mask_ious[place]), seconds]
                rows.append(row)
    return rows


def compared(rows: list[Any]) -> dict[str, Any]:
    """Return by least tokens: what is encoded at half the side, and what that changes."""
    images = [row[0] for row in rows]
    tokens, right, overlap, seconds, *native = (
        np.array(column) for column in [*zip(*rows, strict=True)][1:]
    )
    now = {"regions": len(rows), "images": len(set(images)), "right": round(float(right.mean()), 4)}
    now |= {
        "overlap": round(float(overlap.mean()), 4),
        "ms": round(1000 * float(seconds.mean()), 1),
    }
    table: dict[str, Any] = {"twice the side": now}
    for least in TOKENS:
        chosen = tokens >= least - 1e-6
        usual = (right, overlap, seconds)
        ours = [np.where(chosen, *pair) for pair in zip(native, usual, strict=True)]
        differing = {
            # two more: the interval of a share of exactly 0 or 1 is another
            name: {key: round(value - 2, 4) for key, value in share(2.0 + a - b, images).items()}
            for name, a, b in (("right", ours[0] * 1.0, right), ("overlap", ours[1], overlap))
        }
        table[f"{least} tokens"] = {
            "coarse": round(float(chosen.mean()), 3),
            "right": round(float(ours[0].mean()), 4),
            "overlap": round(float(ours[1].mean()), 4),
            "ms": round(1000 * float(ours[2].mean()), 1),
            "difference": differing,
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "window-sides.json")
    chosen = parser.parse_args()
    measuring.use_one_thread()
    windows._ENOUGH_TOKENS = 0.0  # every window, and then by tokens
    report: dict[str, Any] = {
        "about": measuring.about() | {"command": "python benchmarks/window_sides.py"}
    }
    subject = subject_of(load_model("demo"))
    model = subject.model
    for kind in (*KINDS, "seen", "unseen"):
        if kind in KINDS:
            members, text = subject.real_texts(kind)
            rows = measured(model, real(kind), [NAMES[i] for i in members], text)
        else:
            rows = measured(model, drawn(subject, kind), list(subject.names), subject.texts)
        report[kind] = compared(rows)
        print(kind, report[kind], flush=True)
    measuring.write(chosen.out, report)


if __name__ == "__main__":
    main()
