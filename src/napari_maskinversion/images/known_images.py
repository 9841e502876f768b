"""Images that the demo model was not trained on, photographs above all.

Its embeddings do not tell photographs from drawings, which it saw on photographs
(docs/lab/demo-model.md has the figures). They do tell blood smears, nuclei and many aerial tiles
from everything else. So every image counts as unknown that is neither a sample, or a part of one,
nor near one of those.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ..base.cache_folder import is_offline
from ..base.errors import InputError
from ..base.reading import read_json
from ..engine.models import registry
from ..engine.models.registry import model_state
from ..engine.models.specs import MODELS, bundled_folder
from .channels import as_source
from .plane_source import PlaneSource, glance
from .sample_scenes import load_scene, scene_names

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

REFERENCES: Final = "known_images.json"
"""File beside the weights: fingerprint, embeddings of training images, limit of the distance."""
INSTEAD: Final = "ViT-B-16/openai"
"""The model for photographs."""
UNKNOWN: Final = (
    "The demo model does not recognise this image. If it is a drawing like the samples, "
    "suggestions may still be right; the model knows no photographs."
)
_LONG = 1.9
_USUAL = 4 / 3  # side ratios: of images in a row, and of one
_ALIKE: Final = 0.97  # correlation of grey values
_LEAST_PART: Final = 64  # pixels of a side of a part of a sample: smaller ones are like anything
# Of each plane the last answer and the model it is about: a run asks before it starts and in it.
_answers: WeakKeyDictionary[PlaneSource, tuple[str, bool]] = WeakKeyDictionary()


def unknown_image_note(image: npt.ArrayLike | PlaneSource, model: Backbone) -> str:
    """Return a warning about an image of a kind that the demo model was not trained on."""
    if is_unknown(image, model):
        return f"{UNKNOWN} {_what_to_do()}"
    return ""


def is_unknown(image: npt.ArrayLike | PlaneSource, model: Backbone) -> bool:
    """Return whether the demo model was trained on no image of this kind.

    Takes some tenths of a second, and reads the plane, or parts of a large one: not for the
    GUI thread. A `PlaneSource` is read once for each model.
    """
    if model.spec is None or not model.spec.bundled:
        return False
    source = as_source(image)
    fingerprint = model.fingerprint
    about, answer = _answers.get(source, ("", False))
    if about != fingerprint:
        answer = not (_is_recognised(source, model) or is_sample(source))
        _answers[source] = fingerprint, answer
    return answer


def _is_recognised(source: PlaneSource, model: Backbone) -> bool:
    """Return whether a plane is near the training's images, or each of several in a row is."""
    pixels = glance(source)
    if is_near(_embedding(pixels, model), model.fingerprint):
        return True
    height, width = pixels.shape[:2]
    ratio = max(height, width) / min(height, width)
    if ratio < _LONG:
        return False
    parts = np.array_split(pixels, round(ratio / _USUAL), axis=int(width > height))
    return all(is_near(_embedding(part, model), model.fingerprint) for part in parts)


def embedding_of(image: npt.ArrayLike | PlaneSource, model: Backbone) -> FloatArray:
    """Return the model's embedding (e,) of a whole plane, squeezed into a square."""
    return _embedding(glance(as_source(image)), model)


def _embedding(pixels: npt.NDArray[Any], model: Backbone) -> FloatArray:
    tensor = model.preprocess(pixels, keep_aspect=False)
    return np.asarray(model.embed_images(tensor)[0].float().cpu().numpy(), np.float32)


def distances(embeddings: FloatArray, references: FloatArray) -> FloatArray:
    """Return the cosine distance of each embedding to the nearest reference."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    unit_references = references / np.linalg.norm(references, axis=1, keepdims=True)
    return np.asarray(1 - (unit @ unit_references.T).max(1), np.float32)


def is_near(embedding: FloatArray, fingerprint: str) -> bool:
    """Return whether an image looks like one of the real images of the training."""
    kept = _references()
    if kept.get("fingerprint") != fingerprint:  # the references are those of other weights
        return False
    references = np.array(kept["embeddings"], np.float32)
    return bool(distances(embedding[None], references)[0] < kept["limit"])


def is_sample(source: PlaneSource) -> bool:
    """Return whether an image is a sample that comes with the package, or a part of one.

    In any type of numbers, brightness and contrast, and with some of its pixels changed.
    """
    from skimage.feature import match_template

    samples = []
    for sample in _samples():
        if np.all(np.less_equal(source.shape, sample.shape)):
            samples.append(sample)
    if not samples or min(source.shape) < _LEAST_PART:
        return False
    pixels = source.read(0, (0, 0, *source.shape))
    if pixels.ndim > 2:
        grey = pixels[..., :3].mean(axis=-1, dtype=np.float32)
    else:
        grey = pixels
    return any(match_template(sample, grey).max() > _ALIKE for sample in samples)


@cache
def _samples() -> tuple[FloatArray, ...]:
    scenes = (load_scene(name).image for name in scene_names())
    return tuple(scene.mean(axis=-1, dtype=np.float32) for scene in scenes)


@cache
def _references() -> dict[str, Any]:
    try:
        kept: dict[str, Any] = read_json(bundled_folder() / REFERENCES)
    except InputError:  # a model that was just trained has none yet
        return {}
    return kept


def how_to_bring() -> str:
    """Return how to get a model that knows photographs without a network."""
    spec = MODELS[INSTEAD]
    way = registry.how_to_bring(spec)
    return f"For photographs bring {INSTEAD} ({spec.size_text}): {way}."


def _what_to_do() -> str:
    spec = MODELS[INSTEAD]
    if model_state(spec) == "on disk":
        return f"For photographs use the model {INSTEAD}, which is on this machine."
    if is_offline():
        return how_to_bring()
    return (
        f"For photographs fetch {INSTEAD} ({spec.size_text}): napari-maskinversion models fetch "
        f"{INSTEAD}, or choose it in the panel."
    )
