"""Checks that a loaded model works: it must choose the right label for known images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.regions import Regions
from ..engine.models.backbone import Backbone

LABELS = (
    "cat",
    "cup of coffee",
    "rocket",
    "astronaut",
    "dog",
    "horse",
    "bicycle",
    "bowl of fruit",
    "mountain lake",
    "city street at night",
)
_TEMPLATE = "a photo of a {}"
# scikit-image's own files, so that nothing is downloaded.
_PHOTOGRAPHS = (
    ("chelsea", "cat"),
    ("coffee", "cup of coffee"),
    ("rocket", "rocket"),
    ("astronaut", "astronaut"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image (H, W[, 3]) whose content is known: ``expected`` is one of ``labels``."""

    name: str
    image: npt.NDArray[np.generic]
    expected: str
    labels: tuple[str, ...] = LABELS


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """The model's answer for one image; `probability` is in 0..1."""

    picture: str
    expected: str
    answer: str
    probability: float

    @property
    def right(self) -> bool:
        """Whether the answer is the expected one."""
        return self.answer == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What `check_model` found; ``needed`` rows must be right, ``note`` says what is unchecked."""

    model: str
    rows: tuple[CheckRow, ...]
    needed: int
    note: str = ""

    @property
    def right(self) -> int:
        """Number of correct answers."""
        return sum(row.right for row in self.rows)

    @property
    def ok(self) -> bool:
        """Whether there are rows and enough of them are right."""
        return bool(self.rows) and self.right >= self.needed

    def table(self) -> str:
        """Return the report as lines of text."""
        if not self.rows:
            return self.note
        cells = [("picture", "expected", "answer", "probability", "")]
        for row in self.rows:
            mark = "ok" if row.right else "WRONG"
            cells.append((row.picture, row.expected, row.answer, f"{row.probability:.2f}", mark))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        verdict = "works" if self.ok else "does NOT answer as it should"
        lines.append(f"{self.model}: {self.right} of {len(self.rows)} right; the model {verdict}.")
        return "\n".join(lines)

    __str__ = table


def check_model(model: Backbone, pictures: Iterable[Picture] | None = None) -> CheckReport:
    """Check whether a model names images of known content."""
    if pictures is None and model.spec is not None and model.spec.bundled:
        note = f"{model.name} knows drawings, not photographs: it is checked on the sample scenes."
        return CheckReport(model=model.name, rows=(), needed=0, note=note)
    rows = tuple(_check(model, p) for p in (photographs() if pictures is None else pictures))
    needed = len(rows) if pictures is None else len(rows) // 2 + 1
    return CheckReport(model=model.name, rows=rows, needed=needed)


def photographs() -> list[Picture]:
    """Return scikit-image's photographs with their labels."""
    from skimage import data

    return [
        Picture(name=name, image=getattr(data, name)(), expected=expected)
        for name, expected in _PHOTOGRAPHS
    ]


def crops(
    name: str,
    image: npt.NDArray[np.generic],
    regions: npt.NDArray[np.integer],
    names: Mapping[int, str],
    vocabulary: Sequence[str],
) -> list[Picture]:
    """Crop the regions of a labelled scene to their boxes, for `check_model`.

    ``names`` says what each label of the image ``regions`` shows; labels that do not occur are
    skipped. The answers are chosen from ``vocabulary``.
    """
    if image.shape[:2] != regions.shape:
        raise InputError(
            f"The scene {name} is {image.shape[0]}x{image.shape[1]} px but its regions are "
            f"{'x'.join(map(str, regions.shape))} px."
        )
    return [
        Picture(
            name=f"{name}, region {region.id}",
            image=image[y0:y1, x0:x1],
            expected=names[region.id],
            labels=tuple(vocabulary),
        )
        for region in Regions.from_labels(regions)
        if region.id in names
        for y0, x0, y1, x1 in [region.bbox]
    ]


def _check(model: Backbone, picture: Picture) -> CheckRow:
    # The whole image at the model's native size, without any inversion: a wrong answer means wrong
    # weights, activation, normalisation or tokenizer.
    image = model.preprocess(picture.image, resolution=model.native_resolution, keep_aspect=False)
    vector = model.embed_images(image)[0].cpu().numpy()
    unit = vector / np.linalg.norm(vector)
    texts = model.encode_text([_TEMPLATE.format(label) for label in picture.labels])
    logits = model.logit_scale * (texts @ unit)
    weights = np.exp(logits - logits.max())
    best = int(np.argmax(logits))
    return CheckRow(
        picture=picture.name,
        expected=picture.expected,
        answer=picture.labels[best],
        probability=float(weights[best] / weights.sum()),
    )
