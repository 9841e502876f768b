"""Checks that a loaded model works: it must choose the right label for known images.

A wrong activation, normalisation or tokenizer raises no error; only answers show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.regions import Regions
from ..engine.invert.inverter import MaskInverter
from ..engine.models.backbone import Backbone
from ..engine.models.loading import with_other_activation
from ..engine.models.openclip import uses_quick_gelu
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
_CLEAR = 0.05  # of the probability
_TEMPLATE = "a photo of a {}"
# Names for pictures that a model of a field should know beside those
_FIELD_LABELS = (
    *LABELS,
    "stained tissue under the microscope",
    "retina of an eye",
    "cell under the microscope",
    "map of a city",
)
_FIELD_PICTURES = {
    "ihc": "stained tissue under the microscope",
    "retina": "retina of an eye",
    "cell": "cell under the microscope",
}
# Boxes (y0, x0, y1, x1) of what is in two photographs
_BOXES = {
    "astronaut": {
        "face of a woman": (60, 165, 205, 285),
        "flag": (0, 0, 380, 95),
        "space shuttle": (20, 375, 300, 470),
        "orange space suit": (210, 90, 512, 420),
    },
    "coffee": {"cup of coffee": (30, 140, 330, 470), "wooden table": (200, 490, 330, 600)},
}
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
    needed: int  # As many must be right; 0: no verdict

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
            mark = "WRONG"
            if answer == picture.expected:
                mark = "ok"
            cells.append((picture.name, picture.expected, answer, f"{probability:.2f}", mark))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for line in cells:
            padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            lines.append("  ".join(padded).rstrip())
        verdict = "does NOT answer as it should"
        if self.ok:
            verdict = "works"
        end = "no verdict: its field has other images"
        if self.needed:
            end = f"the model {verdict}"
        lines.append(f"{self.model}: {self.right} of {len(cells) - 1} right; {end}.")
        return "\n".join(lines)


def check_model(model: Backbone) -> CheckReport:
    """Check whether a model names images of known content.

    It must name all photographs. The bundled model was trained on drawings: it must name more than
    half of the regions of the sample scenes. A model of microscopy or pathology must name more than
    half of the photographs and three pictures of these fields; of others there are no pictures.
    """
    bundled = model.spec is not None and model.spec.bundled
    if model.spec is None:
        domain = "general"
    else:
        domain = model.spec.domain
    pictures = scene_regions() if bundled else photographs(domain)
    needed = len(pictures) // 2 + 1
    if not bundled and domain not in ("microscopy", "pathology"):
        needed = 0
        if domain == "general":
            needed = len(pictures)
    return CheckReport(
        model=model.name,
        pictures=pictures,
        answers=tuple(_answer(model, picture) for picture in pictures),
        needed=needed,
    )


def photographs(domain: str = "general") -> tuple[Picture, ...]:
    """Return scikit-image's photographs with their labels, and its pictures of a field."""
    from skimage import data

    expected_names = _PHOTOGRAPHS
    labels: tuple[str, ...] = LABELS
    if domain in ("microscopy", "pathology"):
        expected_names = {**_PHOTOGRAPHS, **_FIELD_PICTURES}
        labels = _FIELD_LABELS
    pictures = []
    for name, expected in expected_names.items():
        pictures.append(
            Picture(
                name=name,
                image=getattr(data, "immunohistochemistry" if name == "ihc" else name)(),
                expected=expected,
                labels=labels,
            )
        )
    return tuple(pictures)


def describe_model(model: Backbone) -> list[str]:
    """Return what can be said about an installation before its answers: a line per check."""
    spec = model.spec
    lines = []
    if spec is not None and spec.source:
        lines.append(
            f"weights: complete and read, from {spec.source} (licence: {spec.license or 'unknown'})"
        )
    tokens = model.tokenize(["a cat", "a dog"])
    differ = not bool((tokens[0] == tokens[1]).all())
    kind = "CLIP's own"
    if spec is not None and spec.tokenizer:
        kind = spec.tokenizer
    lines.append(f"tokenizer: {kind}; two words give {'different' if differ else 'EQUAL'} tokens")
    other = with_other_activation(model)
    if other is not None and not (spec is not None and spec.bundled):
        if uses_quick_gelu(model.clip):
            names = ("QuickGELU", "GELU")
        else:
            names = ("GELU", "QuickGELU")
        probability, other_probability = (_mean_probability(checked) for checked in (model, other))
        verdict = "the other one answers BETTER"
        if probability > other_probability:
            verdict = "as it should be"
        if abs(probability - other_probability) < _CLEAR:
            verdict = "too close to tell"
        lines.append(
            f"activation: {names[0]}; right names get {probability:.2f} of the probability, with "
            f"{names[1]} {other_probability:.2f}: {verdict}"
        )
    return lines


def _mean_probability(model: Backbone) -> float:
    pictures = photographs()
    probabilities = []
    for picture in pictures:
        probabilities.append(
            float(_probabilities(model, picture)[picture.labels.index(picture.expected)])
        )
    return sum(probabilities) / len(pictures)


def rank_regions(model: Backbone) -> list[str]:
    """Return at which place the right words come for regions in photographs, a line for each."""
    from skimage import data

    lines = []
    for name, boxes in _BOXES.items():
        image = getattr(data, name)()
        masks = np.zeros((len(boxes), *image.shape[:2]), bool)
        for mask, (y0, x0, y1, x1) in zip(masks, boxes.values(), strict=True):
            mask[y0:y1, x0:x1] = True
        inverter = MaskInverter(model)
        inverter.set_image(image)
        texts = model.encode_text([_TEMPLATE.format(words) for words in boxes])
        scores = inverter.invert(masks).embeddings @ texts.T
        for row, words in enumerate(boxes):
            place = 1 + int((scores[row] > scores[row, row]).sum())
            lines.append(f"region in {name}: {words}, place {place} of {len(boxes)}")
    return lines


def scene_regions() -> tuple[Picture, ...]:
    """Return the regions of the sample scenes, cropped to their boxes."""
    pictures = []
    for scene in map(load_scene, scene_names()):
        for region in Regions.from_labels(scene.regions):
            if region.id in scene.truth:
                y0, x0, y1, x1 = region.bbox
                pictures.append(
                    Picture(
                        name=f"{scene.name}, region {region.id}",
                        image=scene.image[y0:y1, x0:x1],
                        expected=scene.truth[region.id],
                        labels=scene.vocabulary,
                    )
                )
    return tuple(pictures)


def _answer(model: Backbone, picture: Picture) -> tuple[str, float]:
    probabilities = _probabilities(model, picture)
    best = int(np.argmax(probabilities))
    return picture.labels[best], float(probabilities[best])


def _probabilities(model: Backbone, picture: Picture) -> npt.NDArray[np.float32]:
    # The whole image at the model's native size, without any inversion: a wrong answer means wrong
    # weights, activation, normalisation or tokenizer.
    image = model.preprocess(picture.image, resolution=model.native_resolution, keep_aspect=False)
    vector = model.embed_images(image)[0].cpu().numpy()
    texts = model.encode_text([_TEMPLATE.format(label) for label in picture.labels])
    logits = model.logit_scale * (texts @ (vector / np.linalg.norm(vector)))
    weights = np.exp(logits - logits.max())
    shares: npt.NDArray[np.float32] = weights / weights.sum()
    return shares
