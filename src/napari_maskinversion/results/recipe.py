"""What results are made from; `Recipe.differences` answers whether they still fit.

Results fit as long as nothing differs that matters to the caller: a batch asks for everything, a
library for what makes embeddings comparable, the panel for what only a new run can change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self

from ..base.identity import file_sha256
from ..engine.methods.registry import Method
from ..language.labels.vocabulary import Vocabulary
from .settings import RunSettings, fields_of, settings_by_key

Part = Literal["image", "regions", "embedding", "ranking"]
Facts = Mapping[str, Any]
PARTS: Final[tuple[Part, ...]] = ("image", "regions", "embedding", "ranking")

# The part that a setting belongs to, by its group; a few settings belong elsewhere.
_PART_OF_GROUP: Final[Mapping[str, Part]] = {
    "model": "embedding",
    "method": "embedding",
    "inversion": "embedding",
    "input": "embedding",
    "window": "embedding",
    "planes": "regions",
    "units": "image",
    "labels": "ranking",
    "uncertainty": "ranking",
}
_PART_OF_KEY: Final[Mapping[str, Part]] = {"plane": "image", "series": "image", "channels": "image"}
# These decide where and how fast a run works, not what it returns.
NO_RESULT: Final = frozenset({"device", "chunk_size"})
# These change embeddings by rounding only, or add maps.
_ROUNDING: Final = frozenset({"inversion.route", "inversion.keep_last_step_heatmaps"})
# These are applied to finished results, without a run.
_LIMITS: Final = frozenset(
    {"threshold", "unsure.tokens", "unsure.margin", "unsure.overlap", "decisions"}
)
# Names for users, of facts whose key says too little.
_NAMES: Final = {"method.name": "method", "weights": "model"}
# The hash of the file that the setting "method.weights" names.
METHOD_SHA256: Final = "method.sha256"
# What to say where the values themselves would say nothing.
_TEXTS: Final = {
    "image": "another image",
    "regions": "other regions",
    "channels": "other channels",
    "decisions": "other decisions learned from",
    METHOD_SHA256: "other weights of the method",
}


@dataclass(frozen=True, slots=True)
class Weights:
    """A model, told from others by its hash: its file may lie elsewhere under another name."""

    fingerprint: str
    model: str = field(default="", compare=False)


class Difference(NamedTuple):
    """A fact that two recipes do not share."""

    part: Part
    key: str  # Of a `Setting`; or "image", "regions", "weights", "labels", "captions"...
    value: Any
    other: Any

    @property
    def name(self) -> str:
        """What differs, in a word: "steps"."""
        return _NAMES.get(self.key, self.key.rpartition(".")[2])

    @property
    def text(self) -> str:
        """What differs and how: "steps 10 instead of 20"."""
        if self.key in _TEXTS:
            return _TEXTS[self.key]
        if isinstance(self.value, Weights) and isinstance(self.other, Weights):
            if self.value.model == self.other.model:
                return f"other weights of {self.value.model} instead of {self.other.model}"
            return f"model {self.value.model} instead of {self.other.model}"
        return f"{self.name} {self.value} instead of {self.other}"

    @property
    def is_setting(self) -> bool:
        """Whether it is a setting, and no image, region or word."""
        return self.key in settings_by_key(RunSettings)

    @property
    def needs_run(self) -> bool:
        """Whether results must be computed again; limits are applied to those that are there."""
        return self.key not in _LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What results are made from: facts by key, in four parts.

    The key of a setting is that of a `Setting`. A fact that is not known is left out.
    """

    image: Facts = field(default_factory=dict)
    regions: Facts = field(default_factory=dict)
    embedding: Facts = field(default_factory=dict)
    ranking: Facts = field(default_factory=dict)

    @classmethod
    def of_settings(cls, settings: RunSettings) -> Self:
        """Return what settings say."""
        return cls.of_values(_values_of(settings))

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Self:
        """Return what settings say; ``values`` are those of a `RunSettings` by their keys."""
        parts: dict[Part, dict[str, Any]] = {part: {} for part in PARTS}
        for key, value in values.items():
            if key not in NO_RESULT:
                parts[part_of(key)][key] = value
        return cls(**parts)

    @classmethod
    def of_words(cls, vocabulary: Vocabulary | None) -> Self:
        """Return what similarities to words depend on: no groups, colours and threshold.

        What a review learned is a fact of its own, ``decisions``: the words are those chosen.
        """
        if vocabulary is None:
            return cls(ranking={"labels": None})
        chosen, learned = vocabulary.chosen, vocabulary.learned
        classifier = chosen.learned and chosen.learned.sha256
        words = chosen.labels, chosen.synonyms, chosen.templates, classifier
        decisions = None if learned is None or learned.is_saved else learned.sha256
        return cls(ranking={"labels": words, "decisions": decisions})

    @classmethod
    def of_space(
        cls,
        settings: RunSettings,
        fingerprint: str,
        smaller_inputs: Sequence[int] = (),
        *,
        method_sha256: str = "",
    ) -> Self:
        """Return what embeddings must share to be comparable.

        ``smaller_inputs`` are sides of the model's input that replaced the wanted one because
        memory ran out; ``method_sha256`` is the hash of the method's own weights, if it is known.
        """
        groups = ["input", "window"]
        if settings.method.uses_inversion:
            groups.insert(0, "inversion")
        facts: dict[str, Any] = {
            "weights": Weights(fingerprint, settings.model),
            "method.name": settings.method.name,
            "method.weights": settings.method.weights,
        }
        if method_sha256:
            facts[METHOD_SHA256] = method_sha256
        for setting in fields_of(*groups):
            if setting.key not in _ROUNDING | NO_RESULT:
                facts[setting.key] = settings.get(setting.key)
        # None is the model's own side, whatever the windows of an image are.
        sides = [settings.resolution, *smaller_inputs]
        facts["resolution"] = min((side for side in sides if side), default=None)
        return cls(embedding=facts)

    def joined(self, *recipes: Recipe) -> Self:
        """Return a recipe with the facts of others as well; the last one counts."""
        joined = self
        for other in recipes:
            parts = {part: {**getattr(joined, part), **getattr(other, part)} for part in PARTS}
            joined = replace(joined, **parts)
        return joined

    def only(self, *keys: str) -> Self:
        """Return a recipe with no other facts."""
        parts: dict[str, Facts] = {}
        for part in PARTS:
            facts: Facts = getattr(self, part)
            parts[part] = {key: facts[key] for key in facts if key in keys}
        return replace(self, **parts)

    def differences(self, other: Recipe) -> tuple[Difference, ...]:
        """Return the facts that both know and that are not the same."""
        different: list[Difference] = []
        for part in PARTS:
            ours: Facts = getattr(self, part)
            theirs: Facts = getattr(other, part)
            for key in ours:
                # What only one of them knows may well be the same.
                if key in theirs and ours[key] != theirs[key]:
                    different.append(Difference(part, key, ours[key], theirs[key]))
        return tuple(different)


def space_key(fingerprint: str, method: Method) -> str:
    """Return the key of an embedding space in files: the model's hash, and a method beside ours."""
    if method.inverts:
        return fingerprint
    return f"{fingerprint}/{method.name}"


def weights_sha256(method: Method) -> str:
    """Return the hash of a method's own weights; "" without any, or if they cannot be read."""
    if method.weights is None:
        return ""
    with suppress(OSError):
        return file_sha256(method.weights)
    return ""


def part_of(key: str) -> Part:
    """Return the part of a recipe that a setting belongs to."""
    setting = settings_by_key(RunSettings).get(key)
    if setting is None:  # of another version: it may change anything
        return "embedding"
    return _PART_OF_KEY.get(key, _PART_OF_GROUP[setting.group])


@lru_cache(maxsize=64)  # The panel asks at each change of anything
def _values_of(settings: RunSettings) -> Mapping[str, Any]:
    values = {key: settings.get(key) for key in settings_by_key(RunSettings)}
    return MappingProxyType(values)
