"""Does a loaded model work? Known pictures, ten names, and whether the right one comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from ...base.errors import InputError
from ..compute.onednn_layers import forward_only
from .backbone import Backbone

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
    """A picture whose content is known.

    Parameters
    ----------
    name : str
    image : ndarray, shape (H, W, 3) or (H, W)
    expected : str
        One of `labels`.
    labels : tuple of str
        What the model chooses from.
    """

    name: str
    image: npt.NDArray[np.generic]
    expected: str
    labels: tuple[str, ...] = LABELS


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """The model's answer to one picture; `probability` is in 0..1."""

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
    """What `check_model` found.

    Parameters
    ----------
    model : str
    rows : tuple of CheckRow
    needed : int
        How many rows have to be right.
    note : str
        What was not checked, and how it can be; empty if there is nothing to say.
    """

    model: str
    rows: tuple[CheckRow, ...]
    needed: int
    note: str = ""

    @property
    def right(self) -> int:
        """How many answers are the expected ones."""
        return sum(row.right for row in self.rows)

    @property
    def ok(self) -> bool:
        """Whether pictures were shown and enough of them were named rightly."""
        return bool(self.rows) and self.right >= self.needed

    def table(self) -> str:
        """Return the report as lines of text."""
        lines = []
        if self.rows:
            head = ("picture", "expected", "answer", "probability")
            cells = [
                (row.picture, row.expected, row.answer, f"{row.probability:.2f}")
                for row in self.rows
            ]
            widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
            marks = ["", *("ok" if row.right else "WRONG" for row in self.rows)]
            for mark, line in zip(marks, [head, *cells], strict=True):
                text = "  ".join(
                    cell.ljust(width) for cell, width in zip(line, widths, strict=True)
                )
                lines.append(f"{text}  {mark}".rstrip())
            verdict = "works" if self.ok else "does NOT answer as it should"
            lines.append(
                f"{self.model}: {self.right} of {len(self.rows)} right; the model {verdict}."
            )
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def check_model(model: Backbone, pictures: Iterable[Picture] | None = None) -> CheckReport:
    """Show a model pictures of known content and see whether it names them.

    Parameters
    ----------
    model : Backbone
    pictures : iterable of Picture, optional
        Default: scikit-image's photographs of a cat, a cup of coffee, a rocket and an astronaut,
        among ten names. The bundled model knows drawings only: give it `crops` of a sample scene,
        without which the report says that nothing was checked.

    Returns
    -------
    CheckReport
        Every photograph has to be named rightly, and more than half of other pictures: a crop is
        no photograph, but an installation that is broken names hardly one of many.
    """
    if pictures is None:
        if model.spec is not None and model.spec.bundled:
            return CheckReport(
                model=model.name,
                rows=(),
                needed=0,
                note=f"{model.name} knows drawings, not photographs: it is checked on the sample "
                "scenes.",
            )
        shown = photographs()
        rows = tuple(_ask(model, picture) for picture in shown)
        return CheckReport(model=model.name, rows=rows, needed=len(rows))
    rows = tuple(_ask(model, picture) for picture in pictures)
    return CheckReport(model=model.name, rows=rows, needed=len(rows) // 2 + 1)


def photographs() -> list[Picture]:
    """Return scikit-image's photographs with their names."""
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
    """Return the bounding boxes of a labelled scene as pictures, for `check_model`.

    Parameters
    ----------
    name : str
        What to call the scene.
    image : ndarray, shape (H, W, 3) or (H, W)
    regions : ndarray, shape (H, W)
        Labels; 0 is background.
    names : mapping of int to str
        What is in each region. Labels that are not in the picture are skipped.
    vocabulary : sequence of str
        What the model chooses from.

    Raises
    ------
    InputError
        If image and regions differ in size.
    """
    if image.shape[:2] != regions.shape:
        raise InputError(
            f"The scene {name} is {image.shape[0]}x{image.shape[1]} px but its regions are "
            f"{'x'.join(map(str, regions.shape))} px."
        )
    pictures = []
    for label, expected in names.items():
        rows, columns = np.nonzero(regions == label)
        if rows.size:
            box = slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1)
            pictures.append(
                Picture(
                    name=f"{name}, region {label}",
                    image=image[box],
                    expected=expected,
                    labels=tuple(vocabulary),
                )
            )
    return pictures


def _ask(model: Backbone, picture: Picture) -> CheckRow:
    # The whole picture at the size the model was trained on: nothing of the method is involved,
    # so a wrong answer means wrong weights, activation, normalisation or tokenizer.
    image = model.preprocess(
        picture.image, resolution=model.native_resolution, keep_aspect=False
    ).to(model.dtype)
    with forward_only():
        found = cast("Any", model.clip).visual(image)
        # CoCa's tower also gives its tokens.
        vector = (found[0] if isinstance(found, tuple) else found).float()[0]
        unit = torch.nn.functional.normalize(vector, dim=0).cpu().numpy()
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
