"""Figures of the paper (arXiv:2407.20034), shown with our experiments of the same kind.

Accuracies in per cent; ViT-B/16 with OpenAI's weights unless stated. A figure has a column
next to ours only where the images are of the same kind; it is below the table if only the
experiment is the same. Its captions and its times are of experiments that are not made here.
"""

from __future__ import annotations

from typing import Final

SETS: Final = ("VOC", "Context", "COCO", "OpenImagesV7")
# Class retrieval, Acc@1, by the names of `list_methods`.
CLASSES: Final[dict[str, tuple[float, ...]]] = {
    "cls": (40.1, 17.8, 25.0, 28.9),
    "crop": (27.9, 5.6, 23.9, 0.8),
    "masked-crop": (75.0, 40.4, 38.2, 33.8),
    "red-circle": (47.5, 21.3, 28.8, 40.5),
    "alphaclip": (52.6, 27.7, 30.9, 43.0),
    "fgvp": (71.8, 32.6, 35.9, 39.4),
    "ris": (78.0, 38.1, 43.6, 34.5),
    "maskclip": (74.9, 43.0, 40.2, 45.6),
    "clip-surgery": (70.8, 53.5, 41.7, 49.5),
    "sclip": (64.3, 43.0, 33.4, 45.5),
    "maskinversion": (85.4, 58.1, 44.7, 46.3),
}
MODELS: Final[dict[str, tuple[float, ...]]] = {
    "ViT-B/32": (79.5, 46.7, 38.0, 42.6),
    "ViT-B/16": CLASSES["maskinversion"],
    "ViT-L/14": (91.0, 59.0, 56.0, 48.7),
    "ViT-H/14": (93.5, 61.8, 63.7, 51.2),
}
BACKBONE: Final = "ViT-B/16"  # of every figure unless stated
COCO: Final = 2  # index of the data set
FIRST_5_10: Final = ((96.4, 98.8), (83.7, 90.5), (71.6, 83.0), (80.4, 87.9))
COUNTS: Final = (19, 59, 80, 350)  # classes of the sets
EXPRESSIONS: Final[dict[str, dict[str, float]]] = {
    "PhraseCut": {"Acc@1": 57.2, "Acc@5": 93.3, "Acc@10": 98.3},
    "RefCOCO": {"Acc@1": 56.1, "mIoU": 56.8, "oIoU": 44.5},
    "RefCOCO+": {"Acc@1": 58.3, "mIoU": 59.0, "oIoU": 46.5},
}
ALPHA: Final[dict[float, float]] = {
    0: 41.7,
    1: 50.3,
    2: 53.9,
    3: 55.2,
    5: 56.2,
    7.5: 56.1,
    10: 53.7,
    20: 20.5,
}  # RefCOCO
MASKS: Final[dict[str, float]] = {
    "mask": 44.7,
    "eroded": 42.7,
    "dilated": 44.3,
    "box": 42.9,
    "box + SAM": 45.0,
}  # COCO
MAPS: Final[dict[str, float]] = {
    "legrad": 85.4,
    "gradcam": 34.6,
    "gradcam-no-relu": 47.6,
    "chefer": 12.6,
}  # VOC
STEPS: Final = "accuracy on VOC rises steeply to about 85 % by step 10 and stays flat to step 100"


def paper_column(kind: str, data: str) -> tuple[str, dict[str, str]]:
    """Return title and cells (by entry key) of a column of the paper's figures; or none.

    Parameters
    ----------
    kind : str
        The measurement, as in ``bench KIND``.
    data : str
        Name of the data set.
    """
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
