"""Limits of the demo's flags, and what they do on fresh scenes: ``python benchmarks/flags.py``.

Run it again after every training: it chooses the limits on validation scenes, writes them beside
the weights (``demo_model/weights/flags.json``), measures them on the test split, writes
benchmarks/results/flags.json and the table of docs/demo-model.md. Seeds of scenes and tiles of
real images are apart from those of training.

Regions are answered as a user's are: `label_regions` with its defaults. Validation: 25 scenes each
of 3, 4 and 5 objects in seen styles, and up to 6 regions of each class in 30 aerial tiles, blood
smears and nuclei images. Test: 40 scenes each, and as many in the style that was never trained on,
beside the real images of the test split.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from napari_maskinversion import load_model
from napari_maskinversion.base.atomic_files import write_whole
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.bench.datasets.drawings import SceneSource
from napari_maskinversion.bench.model_under_test import ModelUnderTest, subject_of
from napari_maskinversion.bench.reports.tables import write_into
from napari_maskinversion.demo_model.domains import KINDS, NAMES, Picture, data_folder, load
from napari_maskinversion.demo_model.vocabulary import REAL
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.language.ranking.calibration import Calibration, calibrate
from napari_maskinversion.pipeline.labelling import label_regions
from napari_maskinversion.results.calibrations import SHIPPED, key_of
from napari_maskinversion.results.region_result import RegionResult
from napari_maskinversion.results.settings import RunSettings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "demo-model.md"
OUT = ROOT / "benchmarks" / "results" / "flags.json"
OBJECTS = (3, 4, 5)
SCENES = {"validation": 25, "test": 40}
PICTURES = 30
PER_CLASS = 6
PROMPTS = {"aerial": "aerial", "blood": "microscopy", "nuclei": "microscopy"}
TITLES = {
    "seen": "drawn scenes, seen styles",
    "unseen": "drawn scenes, unseen style",
    "aerial": "aerial tiles",
    "blood": "blood smears",
    "nuclei": "cell nuclei",
    "all": "all",
}
AIMS = {"wrong_flagged": 0.80, "right_kept": 0.85}


@dataclass(frozen=True)
class Answer:
    """One region: its kind of image, what the model said, and whether that was right."""

    kind: str
    margin: float
    overlap: float
    confidence_margin: float
    loss: float
    right: bool

    @classmethod
    def of(cls, kind: str, row: RegionResult, name: str) -> Answer:
        ranking = row.ranking
        assert ranking is not None
        first, second = ranking.probabilities[:2].tolist()
        loss = float(row.losses[-1])
        right = ranking.labels[0] == name
        return cls(kind, ranking.margin, row.iou, first - second, loss, right)


def answers(subject: ModelUnderTest, split: str) -> Iterator[Answer]:
    """Yield the answers to all regions of a split."""
    scenes = SceneSource(subject, None)
    for kind in ("seen",) if split == "validation" else ("seen", "unseen"):
        for objects in OBJECTS:
            for case in scenes.draw(kind, SCENES[split], objects, split):
                regions = Regions.from_masks(case.masks)
                names = [subject.names[int(label)] for label in case.labels]
                rows = label_regions(case.image, regions, subject.names, model=subject.model)
                for row, name in zip(rows.regions, names, strict=True):
                    yield Answer.of(kind, row, name)
    folder = data_folder()
    if folder is None:
        raise InputError("NAPARI_MASKINVERSION_DATA must name the folder of the real images.")
    for kind in KINDS:
        words = [name.name for name in REAL if name.group == kind]
        rng = np.random.default_rng(0)
        pictures = load(folder, split, [kind])  # type: ignore[arg-type]
        for index in rng.permutation(len(pictures))[:PICTURES]:
            regions, names = some_regions(pictures[index], rng)
            rows = label_regions(
                pictures[index].pixels,
                regions,
                words,
                model=subject.model,
                templates=[PROMPTS[kind]],
            )
            for row, name in zip(rows.regions, names, strict=True):
                yield Answer.of(kind, row, name)


def some_regions(picture: Picture, rng: np.random.Generator) -> tuple[Regions, list[str]]:
    """Return some regions of each class of a picture, and their names."""
    regions, names = [], []
    for label in np.unique(picture.labels):
        for place in rng.permutation(np.flatnonzero(picture.labels == label))[:PER_CLASS]:
            y0, x0, y1, x1 = (int(edge) for edge in picture.boxes[place])
            mask = picture.mask(place, y0, x0, y1 - y0, x1 - x0) > 0.5
            if mask.any():
                regions.append(Region(int(place) + 1, (y0, x0, y1, x1), mask))
                names.append(NAMES[int(label)])
    return Regions(picture.pixels.shape[:2], regions), names


def limits_of(seen: list[Answer]) -> Calibration:
    """Choose the limits on validation answers."""
    return calibrate(
        [one.margin for one in seen],
        [one.overlap for one in seen],
        [one.right for one in seen],
        source="validation scenes and images of benchmarks/flags.py",
    )


def figures(tested: list[Answer], limits: Calibration) -> dict[str, dict[str, Any]]:
    """Return by kind: how many wrong answers are flagged, how many right ones are not."""
    rows = {}
    for kind in TITLES:
        chosen = [one for one in tested if kind in ("all", one.kind)]
        doubtful = np.array([one.margin < (limits.margin or 0) for one in chosen])
        misfit = np.array([one.overlap < (limits.overlap or 0) for one in chosen])
        right = np.array([one.right for one in chosen])
        flagged = doubtful | misfit

        def share(values: Any, among: Any) -> float | None:
            return round(float(values[among].mean()), 4) if among.any() else None

        rows[kind] = {
            "right": int(right.sum()),
            "wrong": int((~right).sum()),
            "wrong_flagged": share(flagged, ~right),
            "right_kept": share(~flagged, right),
            "wrong_doubtful": share(doubtful, ~right),
            "wrong_not_fitting": share(misfit, ~right),
            "right_not_fitting": share(misfit, right),
        }
    return rows


def signals(tested: list[Answer]) -> dict[str, float]:
    """Return how well each signal alone separates right from wrong (area under the curve)."""
    right = np.array([one.right for one in tested])
    values = {
        "margin of similarities": [one.margin for one in tested],
        "margin of confidences": [one.confidence_margin for one in tested],
        "overlap (IoU)": [one.overlap for one in tested],
        "last loss": [-one.loss for one in tested],
    }
    return {name: round(area_under_curve(np.array(v), right), 3) for name, v in values.items()}


def area_under_curve(values: Any, right: Any) -> float:
    """Return the chance that a right answer has a higher value than a wrong one."""
    from scipy.stats import rankdata

    high, low = int(right.sum()), int((~right).sum())
    return float((rankdata(values)[right].sum() - high * (high + 1) / 2) / (high * low))


def table(report: dict[str, Any]) -> str:
    """Return the figures as the text of docs/demo-model.md."""
    limits = report["limits"]

    def percent(value: float | None) -> str:
        return "none" if value is None else f"{100 * value:.0f} %"

    lines = [
        f"Limits: margin {limits['margin']:.4f}, overlap {limits['overlap']:.4f} (fingerprint "
        f"{report['fingerprint']}); {report['about']['date']}, "
        f"`{report['about']['command']}`.",
        "",
        "| fresh regions of the test split | right / wrong | wrong ones flagged (aim 80 %) "
        "| right ones not flagged (aim 85 %) | right, but *does not fit* |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {TITLES[kind]} | {row['right']} / {row['wrong']} | {percent(row['wrong_flagged'])} "
        f"| {percent(row['right_kept'])} | {percent(row['right_not_fitting'])} |"
        for kind, row in report["test"].items()
    ]
    lines += [
        "",
        "| signal | chance that a right answer has more of it than a wrong one |",
        "| --- | --- |",
        *(f"| {name} | {value:.2f} |" for name, value in report["signals"].items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--into", type=Path, default=PAGE, help="document with the table's marks")
    chosen = parser.parse_args()
    about = measuring.about() | {"command": "python benchmarks/flags.py"}
    model = load_model("demo")
    subject = subject_of(model)
    limits = limits_of(list(answers(subject, "validation")))
    tested = list(answers(subject, "test"))
    report = {
        "about": about,
        "fingerprint": model.fingerprint,
        "limits": asdict(limits),
        "aims": AIMS,
        "test": figures(tested, limits),
        "signals": signals(tested),
    }
    shipped = {key_of(model.fingerprint, RunSettings()): asdict(limits)}
    weights = bundled_folder() / SHIPPED
    write_whole(weights, (json.dumps(shipped, indent=1) + "\n").encode())
    measuring.write(chosen.out, report)
    write_into(chosen.into, "flags", table(report))
    print(table(report))


if __name__ == "__main__":
    main()
