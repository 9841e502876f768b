"""``bench scenes``: name single objects and regions in new scenes and real images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...demo_model.domains import KINDS, NAMES, Split
from ...demo_model.sprites import SETS
from ...engine.settings import InversionConfig
from ..datasets.domains import pictures
from ..datasets.scenes import Case, SceneSource, draw_windows, kinds_of, labels_of, sources_of
from ..model_under_test import ModelUnderTest
from .figures_file import Figures, FiguresFile, Report, Tell
from .scene_methods import (
    SCENE_METHODS,
    Setting,
    Texts,
    choose_settings,
    invert,
    read_setting,
    usual_settings,
    why_not,
)
from .statistics import discriminant, hits, merge, share, size_and_colour

USUAL: Final = InversionConfig()
SHORT_SCENES: Final = 40
VALIDATION_SCENES: Final = 40
VALIDATION_PER_CLASS: Final = 20
BATCH: Final = 32  # images measured at once
SINGLES: Final = 5  # times as many scenes of one object, which take no inversion


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenesPlan:
    """What to measure."""

    scenes: int = 200  # Scenes of each kind; five times as many of a single object
    objects: tuple[int, ...] = (3, 4, 5)  # Numbers of objects in the scenes with several
    inversion: InversionConfig = USUAL
    # MaskInversion's resolution in pixels; None chooses it on validation scenes
    resolution: int | None = None
    per_class: int = 100  # Largest number of real regions per class
    sprites: Path | None = None  # Folders of the emoji sets and of the real images
    real: Path | None = None
    short: bool = False  # Only bundled drawings, and every method with its usual setting
    validation: int = VALIDATION_SCENES  # Number of scenes for choosing settings
    skip_bad: bool = False  # Continue after a real image that cannot be used, and list it

    def settings(self, subject: ModelUnderTest) -> Figures:
        """Return everything the figures depend on."""
        lacks = why_not(subject)
        return {
            **({"lacks": lacks} if lacks else {}),
            "model": subject.model.name,
            "fingerprint": subject.model.fingerprint,
            "names": len(subject.names),
            "drawn names": len(subject.drawn),
            "scenes": self.scenes,
            "scenes of one object": SINGLES * self.scenes,
            "validation scenes": 0 if self.short else self.validation,
            "regions per real class": self.per_class,
            "resolution": self.resolution,
            "inversion": dict(self.inversion),
            "drawings": "bundled" if self.short else {s.style: s.version for s in SETS},
        }


class SceneBench:
    """Measures the parts of a plan on scenes, and keeps each of them."""

    def __init__(self, subject: ModelUnderTest, plan: Any, record: FiguresFile) -> None:
        self.subject, self.plan, self.record = subject, plan, record
        self._scenes = SceneSource(subject, plan.sprites)

    def run(self, report: Report = lambda *_: None) -> None:
        """Measure missing parts; ``report`` receives the present part and the share done."""
        self.record.measure(self._parts(), report)

    def _parts(self) -> Iterator[tuple[str, Callable[[Tell], Figures]]]:
        """Yield the name of each part, and what measures it."""
        raise NotImplementedError


class ScenesBench(SceneBench):
    """``bench scenes``."""

    plan: ScenesPlan

    @property
    def _texts(self) -> Texts:
        return np.arange(len(self.subject.names)), self.subject.texts

    @property
    def unknown(self) -> list[str]:
        """Requested kinds of real images whose names the model was not taught."""
        asked = KINDS if self.plan.real is not None else ()
        return [kind for kind in asked if not self.subject.knows(kind)]

    def _parts(self) -> Iterator[tuple[str, Callable[[Tell], Figures]]]:
        kinds = kinds_of(short=self.plan.short)
        for kind in kinds:
            yield f"single/{kind}", partial(self._single, kind)
        if not self.plan.short:
            yield "choice/scenes", self._choice
        for objects in self.plan.objects:
            for kind in kinds:
                yield f"regions/{kind}/{objects}", partial(self._regions, kind, objects)
        if self.plan.real is not None:
            for kind in (k for k in KINDS if k not in self.unknown):
                yield f"choice/{kind}", partial(self._real_choice, kind)
                yield f"real/{kind}", partial(self._real, kind)

    def _single(self, kind: str, tell: Tell) -> Figures:
        setting = Setting(resolution=self.subject.model.native_resolution)
        right, sources, count = [], [], SINGLES * self.plan.scenes
        for batch in _together(self._scenes.draw(kind, count, 1)):
            embeddings = SCENE_METHODS["cls"].embed(
                self.subject, batch, setting, self.plan.inversion
            )
            right.append(hits(embeddings, self._texts[1], labels_of(batch)))
            sources += sources_of(batch)
            tell(len(sources) / count)
        return {"scenes": len(sources), **_two(np.concatenate(right), sources)}

    def _choice(self, tell: Tell) -> Figures:
        cases = list(self._scenes.draw("seen", self.plan.validation, 3, "validation"))
        return self._chosen(cases, self._texts, tell)

    def _chosen(
        self, cases: list[Case], texts: Texts, tell: Tell, *, macro: bool = False
    ) -> Figures:
        plan = self.plan
        return choose_settings(
            *(self.subject, cases, texts, plan.inversion),
            resolution=plan.resolution,
            macro=macro,
            on_step=tell,
        )

    def _settings(self, domain: str) -> dict[str, Setting]:
        if self.plan.short:
            return usual_settings(self.subject, self.plan.resolution)
        choice = self.record.parts[f"choice/{domain}"]
        return {
            method: read_setting(chosen["setting"])
            for method, chosen in choice.items()
            if method in SCENE_METHODS
        }

    def _regions(self, kind: str, objects: int, tell: Tell) -> Figures:
        rows, sources, done = [], [], 0
        for batch in _together(self._scenes.draw(kind, self.plan.scenes, objects)):
            rows.append(self._named(batch, self._settings("scenes"), self._texts))
            sources += sources_of(batch)
            done += len(batch)
            tell(done / self.plan.scenes)
        hits_by_method = merge(rows)
        overlap = hits_by_method.pop("iou")
        accuracies = {name: _two(right, sources) for name, right in hits_by_method.items()}
        return {"regions": len(sources), "ways": accuracies, "iou": share(overlap, sources)}

    def _named(
        self, cases: tuple[Case, ...], settings: dict[str, Setting], texts: Texts
    ) -> dict[str, NDArray[Any]]:
        """Return hits (regions, 2) of every method, and the heatmaps' overlaps (regions,)."""
        true = np.searchsorted(texts[0], labels_of(cases))
        embeddings, overlap = invert(
            self.subject, cases, settings["maskinversion"], self.plan.inversion
        )
        rows: dict[str, NDArray[Any]] = {
            "iou": overlap,
            "maskinversion": hits(embeddings, texts[1], true),
        }
        for name in settings:
            if name not in rows:
                embeddings = SCENE_METHODS[name].embed(
                    self.subject, cases, settings[name], self.plan.inversion
                )
                rows[name] = hits(embeddings, texts[1], true)
        return rows

    def _windows(
        self, kind: str, split: Split, per_class: int, skipped: dict[str, str]
    ) -> list[Case]:
        assert self.plan.real is not None
        noted = skipped if self.plan.skip_bad else None
        return list(draw_windows(pictures(self.plan.real, split, kind, noted), per_class))

    def _real_choice(self, kind: str, tell: Tell) -> Figures:
        skipped: dict[str, str] = {}
        cases = self._windows(kind, "validation", VALIDATION_PER_CLASS, skipped)
        chosen = self._chosen(cases, self.subject.real_texts(kind), tell, macro=True)
        return chosen | _noted(skipped)

    def _real(self, kind: str, tell: Tell) -> Figures:
        texts, settings = self.subject.real_texts(kind), self._settings(kind)
        skipped: dict[str, str] = {}
        test = self._windows(kind, "test", self.plan.per_class, skipped)
        training = self._windows(kind, "train", 4 * self.plan.per_class, skipped)
        rows, done = [], 0
        for batch in _together(test):
            rows.append(self._named(batch, settings, texts))
            done += len(batch)
            tell(done / len(test))
        hits_by_method, true, sources = merge(rows), labels_of(test), sources_of(test)
        train, labels = size_and_colour(training)
        plain = discriminant(train, labels, size_and_colour(test)[0]) == true
        accuracies = {name: share(hits_by_method[name][:, 0], sources, true) for name in settings}
        return {
            "regions": len(true),
            "images": len(set(sources)),
            "classes": {NAMES[int(c)]: int((true == c).sum()) for c in np.unique(true)},
            "ways": accuracies,
            "size_and_colour": share(plain, sources, true),
            "majority": 1 / len(np.unique(true)),
            "iou": share(hits_by_method["iou"], sources, true),
            **_noted(skipped),
        }


def _noted(skipped: dict[str, str]) -> Figures:
    return {"skipped": list(skipped.values())} if skipped else {}


def _together(cases: Iterable[Case]) -> Iterator[tuple[Case, ...]]:
    left = iter(cases)
    while batch := tuple(islice(left, BATCH)):
        yield batch


def _two(right: NDArray[np.bool_], sources: list[str]) -> dict[str, dict[str, float]]:
    return {k: share(right[:, i], sources) for i, k in enumerate(("top1", "top5"))}
