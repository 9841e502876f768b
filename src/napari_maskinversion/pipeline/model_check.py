"""Checks that a loaded model works: it must choose the right label for known images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.regions import Regions
from ..engine.models.backbone import Backbone
from ..images.sample_scenes import load_scene, scene_names

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
_PHOTOGRAPHS = {
    "chelsea": "cat",
    "coffee": "cup of coffee",
    "rocket": "rocket",
    "astronaut": "astronaut",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image (H, W[, 3]) whose content is known: ``expected`` is one of ``labels``."""

    name: str
    image: npt.NDArray[np.generic]
    expected: str
    labels: tuple[str, ...] = LABELS


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a model answered to pictures: a label and its probability for each."""

    model: str
    pictures: tuple[Picture, ...]
    answers: tuple[tuple[str, float], ...]
    needed: int  # As many must be right

    @property
    def right(self) -> int:
        """Number of correct answers."""
        pairs = zip(self.pictures, self.answers, strict=True)
        return sum(answer == picture.expected for picture, (answer, _) in pairs)

    @property
    def ok(self) -> bool:
        """Whether enough of them are right."""
        return self.right >= self.needed

    def table(self) -> str:
        """Return the report as lines of text."""
        cells = [("picture", "expected", "answer", "probability", "")]
        for picture, (answer, probability) in zip(self.pictures, self.answers, strict=True):
            mark = "ok" if answer == picture.expected else "WRONG"
            cells.append((picture.name, picture.expected, answer, f"{probability:.2f}", mark))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        verdict = "works" if self.ok else "does NOT answer as it should"
        lines.append(f"{self.model}: {self.right} of {len(cells) - 1} right; the model {verdict}.")
        return "\n".join(lines)


def check_model(model: Backbone) -> CheckReport:
    """Check whether a model names images of known content.

    It must name all photographs. The bundled model was trained on drawings: it must name more than
    half of the regions of the sample scenes.
    """
    bundled = model.spec is not None and model.spec.bundled
    pictures = scene_regions() if bundled else photographs()
    return CheckReport(
        model=model.name,
        pictures=pictures,
        answers=tuple(_answer(model, picture) for picture in pictures),
        needed=len(pictures) // 2 + 1 if bundled else len(pictures),
    )


def photographs() -> tuple[Picture, ...]:
    """Return scikit-image's photographs with their labels."""
    from skimage import data

    return tuple(
        Picture(name=name, image=getattr(data, name)(), expected=expected)
        for name, expected in _PHOTOGRAPHS.items()
    )


def scene_regions() -> tuple[Picture, ...]:
    """Return the regions of the sample scenes, cropped to their boxes."""
    return tuple(
        Picture(
            name=f"{scene.name}, region {region.id}",
            image=scene.image[y0:y1, x0:x1],
            expected=scene.truth[region.id],
            labels=scene.vocabulary,
        )
        for scene in map(load_scene, scene_names())
        for region in Regions.from_labels(scene.regions)
        if region.id in scene.truth
        for y0, x0, y1, x1 in [region.bbox]
    )


def _answer(model: Backbone, picture: Picture) -> tuple[str, float]:
    # The whole image at the model's native size, without any inversion: a wrong answer means wrong
    # weights, activation, normalisation or tokenizer.
    image = model.preprocess(picture.image, resolution=model.native_resolution, keep_aspect=False)
    vector = model.embed_images(image)[0].cpu().numpy()
    texts = model.encode_text([_TEMPLATE.format(label) for label in picture.labels])
    logits = model.logit_scale * (texts @ (vector / np.linalg.norm(vector)))
    weights = np.exp(logits - logits.max())
    best = int(np.argmax(logits))
    return picture.labels[best], float(weights[best] / weights.sum())
