"""Every figure of the paper (arXiv:2407.20034), as printed: per cent, or seconds.

Each line of a table is a row: title, backbone, and the figures of its columns in order; ``-`` where
the paper has none. ``‡`` marks figures that the paper quotes from others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SETS: Final[dict[str, str]] = {
    "phrasecut": "PhraseCut",
    "refcoco": "RefCOCO",
    "refcoco+": "RefCOCO+",
    "voc": "VOC",
    "context": "Context",
    "coco": "COCO",
    "openimages": "OpenImagesV7",
}
TABLES: Final = (*map(str, range(1, 7)), "alpha", "steps", "maps", "resolution", "grid")
WITH_SENTENCES: Final = ("phrasecut", "refcoco", "refcoco+")
BACKBONES: Final = ("B/32", "B/16", "L/14", "H/14")
ACCURACIES: Final = ("acc1", "acc5", "acc10")
OVERLAPS: Final = ("acc1", "miou", "oiou")
Column = tuple[str, str]  # data set, or what is timed; metric
METRICS: Final = {
    "acc1": "Acc@1",
    "acc5": "Acc@5",
    "acc10": "Acc@10",
    "miou": "mIoU",
    "oiou": "oIoU",
    "direct": "without decomposition",
    "decomposed": "with decomposition",
}


@dataclass(frozen=True, slots=True)
class Quoted:
    """A row as the paper prints it."""

    title: str
    backbone: str
    values: Mapping[Column, float]  # By column: data set and metric

    @property
    def of_others(self) -> bool:
        """Whether the paper quotes these figures from another one."""
        return self.title.endswith("‡")


def _rows(columns: tuple[Column, ...], text: str) -> tuple[Quoted, ...]:
    rows = []
    for line in text.strip().splitlines():
        title, backbone, figures = (part.strip() for part in line.split("|"))
        numbers = figures.split()
        values = {c: float(n) for c, n in zip(columns, numbers, strict=True) if n != "-"}
        rows.append(Quoted(title, backbone, values))
    return tuple(rows)


def _columns(sets: tuple[str, ...], metrics: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple((name, metric) for name in sets for metric in metrics)


EXPRESSIONS_COLUMNS: Final = (
    *_columns(("phrasecut",), ACCURACIES),
    *_columns(("refcoco", "refcoco+"), OVERLAPS),
)
EXPRESSIONS: Final = _rows(
    EXPRESSIONS_COLUMNS,
    """
CPT ‡         | RN50x16+B/32          | -    -    -    32.2 -    -    31.9 -    -
GradCAM ‡     | RN50x16+B/32          | -    -    -    42.9 -    -    47.8 -    -
ReCLIP ‡      | RN50x16+B/32          | -    -    -    45.8 -    -    47.9 -    -
RedCircle ‡   | RN50x16+L/14@336      | -    -    -    49.8 -    -    55.3 -    -
FGVP ‡        | RN50x16+B/32+L/14@336 | -    -    -    52.9 -    -    57.4 -    -
AlphaCLIP ‡   | B/16+L/14             | -    -    -    55.7 -    -    55.6 -    -
RIS           | B/32                  | -    -    -    -    -    42.6 -    -    37.1
CLIP          | B/16                  | 14.4 66.4 87.1 18.3 18.9 15.3 18.4 19.0 15.4
Crop          | B/16                  | 15.1 67.0 87.6 17.9 18.5 15.5 19.0 19.5 16.1
Masked Crop   | B/16                  | 48.3 89.7 97.2 52.3 52.9 41.2 58.7 59.4 47.5
RedCircle     | B/16                  | 21.5 72.3 90.3 42.5 43.2 32.7 42.5 43.3 33.5
FGVP          | B/16                  | 35.9 83.5 95.2 42.6 43.2 33.3 48.0 48.7 38.0
AlphaCLIP     | B/16                  | 34.0 80.0 93.6 43.4 44.0 38.1 44.2 44.7 39.7
MaskInversion | B/32                  | 54.8 93.0 98.5 54.1 54.7 42.3 55.8 56.5 44.3
MaskInversion | B/16                  | 57.2 93.3 98.3 56.1 56.8 44.5 58.3 59.0 46.5
MaskInversion | L/14                  | 60.2 94.9 98.7 56.1 56.7 42.0 60.2 60.9 47.5
MaskInversion | H/14                  | 64.0 96.0 99.2 61.2 61.8 47.5 65.0 65.7 52.6
""",
)
CLASSES_COLUMNS: Final = _columns(("voc", "context", "coco", "openimages"), ACCURACIES)
CLASSES: Final = _rows(
    CLASSES_COLUMNS,
    """
CLIP          | B/16 | 40.1 87.2 95.6 17.8 38.7 52.7 25.0 54.9 72.6 28.9 63.4 72.7
Crop          | B/16 | 27.9 51.2 72.4  5.6 13.2 20.4 23.9 34.5 41.5  0.8  3.8 7.05
Masked Crop   | B/16 | 75.0 91.4 96.4 40.4 65.9 75.8 38.2 57.7 65.2 33.8 61.9 73.7
RedCircle     | B/16 | 47.5 92.9 97.7 21.3 45.0 57.4 28.8 63.0 77.3 40.5 75.8 84.5
AlphaCLIP     | B/16 | 52.6 85.9 93.8 27.7 60.9 75.1 30.9 55.9 70.3 43.0 77.4 84.3
FGVP          | B/16 | 71.8 93.6 98.3 32.6 58.9 72.4 35.9 62.2 72.6 39.4 75.6 84.6
RIS           | B/16 | 78.0 95.2 98.1 38.1 62.7 74.3 43.6 65.3 72.4 34.5 66.5 75.8
MaskInversion | B/32 | 79.5 96.4 98.8 46.7 74.9 84.6 38.0 65.8 78.4 42.6 78.8 86.6
MaskInversion | B/16 | 85.4 96.4 98.8 58.1 83.7 90.5 44.7 71.6 83.0 46.3 80.4 87.9
MaskInversion | L/14 | 91.0 99.1 99.8 59.0 86.3 92.5 56.0 84.2 91.4 48.7 81.0 88.1
MaskInversion | H/14 | 93.5 99.4 99.7 61.8 86.0 91.8 63.7 88.3 93.5 51.2 85.2 91.4
""",
)
MEAN: Final = "mean"  # of all data sets of a row
TRAINING_FREE_COLUMNS: Final = _columns(
    ("voc", "context", "coco", "phrasecut", "refcoco", "refcoco+", "openimages", MEAN), ("acc1",)
)
TRAINING_FREE: Final = _rows(
    TRAINING_FREE_COLUMNS,
    """
MaskCLIP      | B/16 | 74.9 43.0 40.2 53.9 49.3 52.6 45.6 51.4
MaskCLIP      | L/14 | 55.1 33.2 29.3 47.6 43.2 47.2 32.5 41.2
MaskCLIP      | H/14 | 61.8 37.8 30.9 45.9 34.6 39.6 36.9 41.1
CLIPSurgery   | B/16 | 70.8 53.5 41.7 52.5 48.9 52.0 49.5 52.7
CLIPSurgery   | L/14 | 78.3 46.4 47.7 47.2 47.3 50.9 45.5 51.9
CLIPSurgery   | H/14 | 68.0 40.8 40.1 41.5 43.2 46.7 45.8 46.6
SCLIP         | B/16 | 64.3 43.0 33.4 37.2 40.7 42.4 45.5 43.8
SCLIP         | L/14 | 43.0 24.9 25.9 19.0 32.8 32.5 38.3 30.9
SCLIP         | H/14 | 38.2 20.7 19.8 15.2 20.7 20.7 35.6 24.4
MaskInversion | B/16 | 85.4 58.1 44.7 57.2 56.1 58.3 46.3 58.0
MaskInversion | L/14 | 91.0 59.0 56.0 60.2 56.1 60.2 48.7 61.6
MaskInversion | H/14 | 93.5 61.8 63.7 64.0 61.2 65.0 51.2 65.8
""",
)
MASKS: Final = _rows(
    (("coco", "acc1"),),
    """
mask      | B/16 | 44.7
eroded    | B/16 | 42.7
dilated   | B/16 | 44.3
box       | B/16 | 42.9
box + SAM | B/16 | 45.0
""",
)
SECONDS_COLUMNS: Final = (("inversion", "direct"), ("inversion", "decomposed"))
SECONDS: Final = _rows(
    SECONDS_COLUMNS,
    """
5   | B/16 | 0.10 0.13
10  | B/16 | 0.15 0.14
50  | B/16 | 0.65 0.27
100 | B/16 | 1.27 0.44
""",
)
CAPTIONS: Final = _rows(
    (("phrasecut", "acc1"),),
    """
CLIP          | B/32 | 20.1
AlphaCLIP     | B/32 | 31.8
MaskInversion | B/32 | 48.4
""",
)
ALPHA: Final = _rows(
    (("refcoco", "acc1"),),
    """
0   | B/16 | 41.7
0.5 | B/16 | 47.6
1   | B/16 | 50.3
1.5 | B/16 | 52.2
2   | B/16 | 53.9
2.5 | B/16 | 54.6
3   | B/16 | 55.2
4   | B/16 | 56.0
5   | B/16 | 56.2
5.5 | B/16 | 56.0
6   | B/16 | 55.8
6.5 | B/16 | 56.0
7   | B/16 | 56.2
7.5 | B/16 | 56.1
8   | B/16 | 55.8
10  | B/16 | 53.7
20  | B/16 | 20.5
""",
)
MAPS: Final = _rows(
    (("voc", "acc1"),),
    """
legrad          | B/16 | 85.4
gradcam         | B/16 | 34.6
gradcam-no-relu | B/16 | 47.6
chefer          | B/16 | 12.6
""",
)
CONVERGED: Final = 10  # the step from which the paper's curve on VOC is flat
LAST_STEP: Final = 100
STEPS: Final = _rows(
    (("voc", "acc1"),),
    """
0   | B/16 | -
1   | B/16 | -
2   | B/16 | -
3   | B/16 | -
4   | B/16 | -
5   | B/16 | -
7   | B/16 | -
10  | B/16 | 85.4
15  | B/16 | -
20  | B/16 | -
30  | B/16 | -
50  | B/16 | -
100 | B/16 | 85.4
""",
)
GRID_STEPS: Final = {f"K = {steps}": steps for steps in (1, 5, 10, 20, 50)}
GRID_MASKS: Final = (1, 5, 10, 50, 100)  # of the grid of masks and steps, which has no figures
GRID_COLUMNS: Final = _columns(tuple(GRID_STEPS), ("direct", "decomposed"))
SIDES: Final = (224, 320, 448, 512, 640, 768)  # pixels; the paper draws their seconds as a curve
