"""Compare weights of the demo model, in the folder of the repository.

``python -m research.demo_model.compare_weights NAME=FOLDER NAME=FOLDER``

A stage measures its weights on 192 scenes of one object, 48 of three and 160 views of real images:
so few that the best of nine measurements is mostly luck. Here each folder answers the same 1,152
scenes of one object, 192 of three and 640 views, all validation. Differences are from the first
folder, with the standard error over the draws. The unseen style has no part in "worth", or it would
not be unseen. Needs NAPARI_MASKINVERSION_DATA. Writes benchmarks/results/demo-weights.json.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measuring
from benchmarks.drawn.sprites import load_sprites
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.demo_model.domains import data_folder, load
from napari_maskinversion.demo_model.scene_words import CHOSEN, DRAWN, taught
from napari_maskinversion.demo_model.scenes import generator, pyramid

from . import probe
from .model import load_model_file
from .views import Views

SINGLE = "seen", "unseen"
REGIONS = "", "unseen_"  # before the names of what is measured in seen styles


def measure(models: dict[str, Any], draws: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """Measure every model on the same draws: of single objects, and of the rest."""
    count = len(CHOSEN)
    names = [name.name for name in taught(count)]
    levels = pyramid(load_sprites(None, size=probe.SIZE, names=DRAWN[:count]), levels=4)
    folder = data_folder()
    if folder is None:
        raise InputError("NAPARI_MASKINVERSION_DATA must name the folder of the real images.")
    views = Views(load(folder, "validation"), count)
    styles = [probe.SEEN, [probe.NEW]]
    texts = {key: probe.name_embeddings(model, names) for key, model in models.items()}
    figures: dict[str, dict[str, list[float]]] = {key: defaultdict(list) for key in models}
    for draw in range(draws[0]):
        for part, chosen in zip(SINGLE, styles, strict=True):
            batch = probe.scenes(levels, "validation", 50_000 + 100 * draw, 192, 1, chosen)
            for key, model in models.items():
                figures[key][part].append(probe.single_objects(model, texts[key], batch))
    for draw in range(draws[1]):
        for part, chosen in zip(REGIONS, styles, strict=True):
            batch = probe.scenes(levels, "validation", 60_000 + 100 * draw, 48, 3, chosen)
            for key, model in models.items():
                answers, overlap = probe.inverted_regions(model, texts[key], batch)
                figures[key][part + "maskinversion"].append(answers.top1)
                figures[key][part + "iou"].append(overlap)
        batch = views.draw(generator("validation", 70_000 + draw), 160, (probe.SIZE, probe.SIZE))
        for key, model in models.items():
            for kind, regions in probe.real_answers(model, texts[key], batch, count).items():
                figures[key][kind].append(probe.macro(regions))
    return figures


def summary(figures: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    """Return by model and part: mean, difference from the first model, its standard error."""
    first = next(iter(figures.values()))

    def row(values: Sequence[float], before: Sequence[float]) -> tuple[float, float, float]:
        apart = np.subtract(values, before)
        return float(np.mean(values)), float(apart.mean()), float(_error(apart))

    rows = {}
    for key, parts in figures.items():
        every = {part: row(values, first[part]) for part, values in parts.items()}
        single, rest = map(row, _shares_of_worth(parts), _shares_of_worth(first))
        error = float(np.hypot(single[2], rest[2]))
        every["worth"] = single[0] + rest[0], single[1] + rest[1], error
        rows[key] = {part: [round(value, 4) for value in values] for part, values in every.items()}
    return rows


def _shares_of_worth(parts: dict[str, list[float]]) -> tuple[list[float], list[float]]:
    """Return by draw what single objects add to worth, a mean, and what all the rest adds."""
    none = dict.fromkeys(parts, 0.0)
    others = [part for part in parts if part not in SINGLE]
    rest = zip(*(parts[part] for part in others), strict=True)
    return (
        [probe.worth(none | {"seen": value}) for value in parts["seen"]],
        [probe.worth(none | dict(zip(others, values, strict=True))) for values in rest],
    )


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description="Compare weights of the demo model.")
    parser.add_argument("weights", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--draws", type=int, nargs=2, default=(6, 4), metavar="N")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "demo-weights.json")
    chosen = parser.parse_args()
    models = {}
    for named_folder in chosen.weights:
        name, _, folder = named_folder.partition("=")
        models[name] = load_model_file(Path(folder)).eval()
    rows = summary(measure(models, chosen.draws))
    for key, parts in rows.items():
        for part, (mean, apart, error) in parts.items():
            print(f"{key} {part} {mean:.4f} {apart:+.4f} ± {error:.4f}")
    folders = " ".join(f'"{key}=FOLDER"' for key in models)
    command = f"python -m research.demo_model.compare_weights {folders}"
    report = {"about": measuring.about() | {"command": command}, "draws": list(chosen.draws)}
    measuring.write(chosen.out, report | {"models": rows})


if __name__ == "__main__":
    main()
