"""Figures of the paper (arXiv:2407.20034), shown with our experiments of the same kind.

Accuracies in per cent; ViT-B/16 with OpenAI's weights unless stated. A figure has a column
next to ours only where the images are of the same kind; it is below the table if only the
experiment is the same. ``bench paper`` runs the paper's own experiments.
"""

from __future__ import annotations

from typing import Final

from ..paper import quoted
from ..paper.tables import METHODS

_SETS: Final = ("voc", "context", "coco", "openimages")
SETS: Final = tuple(quoted.SETS[name] for name in _SETS)
BACKBONE: Final = "ViT-B/16"  # of every figure unless stated
COCO: Final = _SETS.index("coco")
COUNTS: Final = (19, 59, 80, 350)  # classes of the sets
STEPS: Final = "accuracy on VOC rises steeply to about 85 % by step 10 and stays flat to step 100"


def _of_sets(row: quoted.Quoted, metric: str) -> tuple[float, ...]:
    return tuple(row.values[name, metric] for name in _SETS)


def _single(rows: tuple[quoted.Quoted, ...]) -> dict[str, float]:
    return {row.title: value for row in rows for value in row.values.values()}


# Class retrieval, Acc@1, by the names of `list_methods`.
CLASSES: Final[dict[str, tuple[float, ...]]] = {
    METHODS[row.title]: _of_sets(row, "acc1")
    for row in (*quoted.CLASSES, *quoted.TRAINING_FREE)
    if row.backbone == "B/16"
}
_OURS: Final = {row.backbone: row for row in quoted.CLASSES if row.title == "MaskInversion"}
MODELS: Final[dict[str, tuple[float, ...]]] = {
    f"ViT-{backbone}": _of_sets(row, "acc1") for backbone, row in _OURS.items()
}
FIRST_5_10: Final = tuple(
    zip(*(_of_sets(_OURS["B/16"], metric) for metric in ("acc5", "acc10")), strict=True)
)
_SAID: Final = next(
    row for row in quoted.EXPRESSIONS if (row.title, row.backbone) == ("MaskInversion", "B/16")
)
EXPRESSIONS: Final[dict[str, dict[str, float]]] = {
    quoted.SETS[data]: {
        quoted.METRICS[metric]: value
        for (one, metric), value in _SAID.values.items()
        if one == data
    }
    for data in quoted.WITH_SENTENCES
}
ALPHA: Final = {float(alpha): value for alpha, value in _single(quoted.ALPHA).items()}  # RefCOCO
MASKS: Final = _single(quoted.MASKS)  # COCO
MAPS: Final = _single(quoted.MAPS)  # VOC


def paper_column(kind: str, data: str) -> tuple[str, dict[str, str]]:
    """Return title and cells (by entry key) of a column of the paper's figures; or none."""
    if data != "coco-panoptic":
        return "", {}
    if kind in ("coco-panoptic", "methods"):
        cells = {name: f"{values[COCO]:.1f}" for name, values in CLASSES.items()}
        others = [f"{name} {row[COCO]:.1f}" for name, row in MODELS.items() if name != BACKBONE]
        cells["maskinversion"] += f" ({', '.join(others)})"
        return f"the paper: COCO, 80 classes, {BACKBONE}", cells
    if kind == "masks":
        cells = {f"maskinversion/{how}": f"{value:.1f}" for how, value in MASKS.items()}
        return f"the paper: COCO, 80 classes, {BACKBONE}", cells
    return "", {}


def tables(kind: str, data: str = "") -> str:
    """Return the paper's figures for the same experiment as Markdown, or ""."""
    if kind == "alpha":
        return _row("Acc@1, %, by alpha: RefCOCO", {f"{a:g}": value for a, value in ALPHA.items()})
    if kind == "steps":
        return f"The paper, {BACKBONE}: {STEPS}, while the loss still creeps down."
    if kind == "masks":
        return _row("Acc@1, %, by mask: COCO, 80 classes", MASKS)
    if kind == "maps":
        return _row("Acc@1, %, by map: VOC, 19 classes", MAPS)
    if kind in ("coco-panoptic", "methods") and data == "coco-panoptic":
        return _retrieval()
    return ""


def _row(title: str, figures: dict[str, float]) -> str:
    cells = [f"the paper, {BACKBONE}, {title}", *figures]
    values = ["MaskInversion", *(f"{value:.1f}" for value in figures.values())]
    lines = [cells, ["---"] * len(cells), values]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _retrieval() -> str:
    from ...engine.methods.registry import METHODS

    named = [f"{name} ({count})" for name, count in zip(SETS, COUNTS, strict=True)]
    lines = ["| the paper: Acc@1, % (classes) | backbone | " + " | ".join(named) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(SETS))
    rows = [
        (METHODS[name].title, BACKBONE, row) for name, row in CLASSES.items() if name in METHODS
    ]
    rows = [row for row in rows if row[0] != METHODS["maskinversion"].title]
    rows += [(METHODS["maskinversion"].title, name, row) for name, row in MODELS.items()]
    for title, backbone, row in rows:
        cells = " | ".join(f"{value:.1f}" for value in row)
        lines.append(f"| {title} | {backbone} | {cells} |")
    for place, first in enumerate((5, 10)):
        cells = " | ".join(f"{pair[place]:.1f}" for pair in FIRST_5_10)
        lines.append(f"| {METHODS['maskinversion'].title}, Acc@{first} | {BACKBONE} | {cells} |")
    words = [f"| the paper: regions found by words, {BACKBONE} | alpha | figures |"]
    words.append("| --- | --- | --- |")
    for name, figures in EXPRESSIONS.items():
        alpha = 5 if name.startswith("RefCOCO") else 0
        listed = ", ".join(f"{measure} {value}" for measure, value in figures.items())
        words.append(f"| MaskInversion, {name}, all masks of the image | {alpha} | {listed} |")
    return "\n".join(lines) + "\n\n" + "\n".join(words)
