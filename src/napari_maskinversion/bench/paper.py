"""What the paper reports (arXiv 2407.20034), to stand beside what is measured here.

Accuracies in per cent; ViT-B/16 with OpenAI's weights unless said.
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
CAPTIONS: Final[dict[str, float]] = {"MaskInversion": 48.4, "AlphaCLIP": 31.8, "CLIP": 20.1}
SECONDS: Final[dict[int, tuple[float, float]]] = {
    5: (0.13, 0.10),
    10: (0.14, 0.15),
    50: (0.27, 0.65),
    100: (0.44, 1.27),
}  # masks: with and without decomposition
STEPS: Final = "accuracy on VOC rises steeply to about 85 % by step 10 and stays flat to step 100"


def near_alpha(value: float) -> str:
    """The paper's accuracy for a weight of the regulariser, where it has one."""
    return f"{ALPHA[value]:.1f}" if value in ALPHA else ""


def tables(kind: str) -> str:
    """All that the paper reports for a kind of measurement, as Markdown."""
    if kind == "alpha":
        values = ", ".join(f"{alpha:g}: {right:g}" for alpha, right in ALPHA.items())
        return f"The paper, RefCOCO, Acc@1 in % by alpha (ViT-B/16): {values}."
    if kind == "steps":
        return f"The paper: {STEPS}, while the loss still creeps down."
    if kind == "masks":
        return f"The paper, COCO, Acc@1 in % (ViT-B/16): {_listed(MASKS)}."
    if kind == "maps":
        return f"The paper, VOC, Acc@1 in % (ViT-B/16): {_listed(MAPS)}."
    if kind == "scenes":
        return ""
    return _retrieval()


def _listed(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in figures.items())


def _retrieval() -> str:
    from ..core.ways.table import WAYS

    named = [f"{name} ({count})" for name, count in zip(SETS, COUNTS, strict=True)]
    lines = ["| the paper: Acc@1, % (classes) | " + " | ".join(named) + " |"]
    lines.append("| --- |" + " --- |" * len(SETS))
    rows = {WAYS[name].title: values for name, values in CLASSES.items() if name in WAYS}
    rows.pop("MaskInversion")
    rows |= {f"MaskInversion, {name}": values for name, values in MODELS.items()}
    for title, values in rows.items():
        lines.append(f"| {title} | " + " | ".join(f"{value:.1f}" for value in values) + " |")
    more = ", ".join(
        f"{name} {five}/{ten}" for name, (five, ten) in zip(SETS, FIRST_5_10, strict=True)
    )
    words = "; ".join(
        f"{name} " + ", ".join(f"{measure} {value}" for measure, value in values.items())
        for name, values in EXPRESSIONS.items()
    )
    seconds = ", ".join(f"{n} masks {a}/{b} s" for n, (a, b) in SECONDS.items())
    return "\n".join(lines) + (
        f"\n\nAlso in the paper, MaskInversion with ViT-B/16: Acc@5/10 {more}. Referring "
        f"expressions, all masks of the image as candidates (RefCOCO and RefCOCO+ with alpha 5): "
        f"{words}. Localized captions {_listed(CAPTIONS)}. Time of an image with/without the "
        f"decomposition, on the authors' GPU: {seconds}."
    )
