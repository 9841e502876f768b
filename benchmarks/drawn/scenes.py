"""``bench scenes``: new scenes and real images, named region by region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_maskinversion.bench.datasets.scene_dataset import Case
from napari_maskinversion.bench.measures.figures_file import Figures, FiguresFile, Report, Tell
from napari_maskinversion.bench.measures.statistics import share
from napari_maskinversion.demo_model.domains import KINDS, NAMES, Split

from .cases import (
    ModelUnderTest,
    SceneSource,
    draw_windows,
    kinds_of,
    labels_of,
    pictures,
    sources_of,
)
from .methods import (
    SCENE_METHODS,
    Setting,
    Texts,
    choose_settings,
    discriminant,
    hits,
    invert,
    read_setting,
    size_and_colour,
    usual_settings,
    why_not,
)
from .plans import Plan, ScenesPlan
from .sprites import SETS

VALIDATION_PER_CLASS: Final = 20
BATCH: Final = 32  # images measured at once
SINGLES: Final = 5  # times as many scenes of one object, which take no inversion
Part = tuple[str, Callable[[Tell], Figures]]  # its name, and what measures it


class SceneBench:
    """Measures the parts of a plan, and keeps each of them."""

    kind: str

    def __init__(self, subject: ModelUnderTest, plan: Plan) -> None:
        self.subject, self.plan = subject, plan
        self._scenes = SceneSource(subject, plan.sprites)
        output = plan.output
        self.record = FiguresFile(
            output.json, self.kind, self.settings(), overwrite=output.overwrite
        )

    unknown: tuple[str, ...] | list[str] = ()  # kinds of real images left out for their names

    def settings(self) -> Figures:
        """Return everything the figures depend on."""
        raise NotImplementedError

    def parts(self) -> Iterator[Part]:
        """Yield all parts."""
        raise NotImplementedError

    def run(self, report: Report = lambda *_: None) -> None:
        """Measure missing parts; ``report`` receives the present part and the share done."""
        self.record.measure(self.parts(), report)


class ScenesBench(SceneBench):
    """``bench scenes``."""

    plan: ScenesPlan
    kind = "scenes"

    def __init__(self, subject: ModelUnderTest, plan: ScenesPlan) -> None:
        super().__init__(subject, plan)
        self.texts: Texts = np.arange(len(subject.names)), subject.texts
        asked = KINDS if plan.folder is not None else ()
        self.unknown = [kind for kind in asked if not subject.knows(kind)]

    def settings(self) -> Figures:
        """Return everything the figures depend on."""
        plan, lacks = self.plan, why_not(self.subject)
        return {
            **({"lacks": lacks} if lacks else {}),
            **self.subject.about,
            "drawn names": len(self.subject.drawn),
            "scenes": plan.count,
            "scenes of one object": SINGLES * plan.count,
            "validation scenes": 0 if plan.short else plan.validation,
            "regions per real class": plan.per_class,
            "resolution": plan.resolution,
            "inversion": dict(plan.inversion),
            "drawings": "bundled" if plan.short else {s.style: s.version for s in SETS},
        }

    def parts(self) -> Iterator[Part]:
        """Yield single objects, then regions, then real images, after the choice of settings."""
        kinds = kinds_of(short=self.plan.short)
        for kind in kinds:
            yield f"single/{kind}", partial(self._single, kind)
        if not self.plan.short:
            yield "choice/scenes", self._choice
        for objects in self.plan.counts:
            for kind in kinds:
                yield f"regions/{kind}/{objects}", partial(self._regions, kind, objects)
        if self.plan.folder is not None:
            for kind in (k for k in KINDS if k not in self.unknown):
                yield f"choice/{kind}", partial(self._real_choice, kind)
                yield f"real/{kind}", partial(self._real, kind)

    def _single(self, kind: str, tell: Tell) -> Figures:
        count = SINGLES * self.plan.count
        setting = Setting(resolution=self.subject.model.native_resolution)
        drawn = self._scenes.draw(kind, count, 1)
        right, cases = self._every(drawn, count, {"cls": setting}, self.texts, tell)
        return {"scenes": len(cases), **_two(right["cls"], sources_of(cases))}

    def _choice(self, tell: Tell) -> Figures:
        cases = self._scenes.draw("seen", self.plan.validation, 3, "validation")
        return self._chosen(list(cases), self.texts, tell)

    def _chosen(
        self, cases: list[Case], texts: Texts, tell: Tell, *, macro: bool = False
    ) -> Figures:
        what = self.subject, cases, texts, self.plan.inversion
        return choose_settings(*what, tell, resolution=self.plan.resolution, macro=macro)

    def _settings(self, domain: str) -> dict[str, Setting]:
        if self.plan.short:
            return usual_settings(self.subject, self.plan.resolution)
        choice = self.record.parts[f"choice/{domain}"]
        return {m: read_setting(choice[m]["setting"]) for m in choice if m in SCENE_METHODS}

    def _regions(self, kind: str, objects: int, tell: Tell) -> Figures:
        count, settings = self.plan.count, self._settings("scenes")
        drawn = self._scenes.draw(kind, count, objects)
        right, cases = self._every(drawn, count, settings, self.texts, tell)
        sources = sources_of(cases)
        overlaps = share(right.pop("iou"), sources)
        accuracies = {name: _two(hit, sources) for name, hit in right.items()}
        return {"regions": len(sources), "ways": accuracies, "iou": overlaps}

    def _every(
        self,
        cases: Iterable[Case],
        count: int,
        settings: dict[str, Setting],
        texts: Texts,
        tell: Tell,
    ) -> tuple[dict[str, NDArray[Any]], list[Case]]:
        """Measure cases, some at once; return what `_right` returns of all, and the cases."""
        rows: list[dict[str, NDArray[Any]]] = []
        done: list[Case] = []
        for batch in _together(cases):
            rows.append(self._right(batch, settings, texts))
            done += batch
            tell(len(done) / count)
        return {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}, done

    def _right(
        self, cases: tuple[Case, ...], settings: dict[str, Setting], texts: Texts
    ) -> dict[str, NDArray[Any]]:
        """Return hits (regions, 2) of every method, and MaskInversion's overlaps (regions,)."""
        true = np.searchsorted(texts[0], labels_of(cases))
        right: dict[str, NDArray[Any]] = {}
        for name, setting in settings.items():
            what = self.subject, cases, setting, self.plan.inversion
            if name == "maskinversion":
                embeddings, right["iou"] = invert(*what)
            else:
                embeddings = SCENE_METHODS[name].embed(*what)
            right[name] = hits(embeddings, texts[1], true)
        return right

    def _windows(
        self, kind: str, split: Split, per_class: int, skipped: dict[str, str]
    ) -> list[Case]:
        assert self.plan.folder is not None
        noted = skipped if self.plan.skip_bad else None
        return list(draw_windows(pictures(self.plan.folder, split, kind, noted), per_class))

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
        right, _ = self._every(test, len(test), settings, texts, tell)
        true, sources = labels_of(test), sources_of(test)
        plain = discriminant(*size_and_colour(training), size_and_colour(test)[0]) == true
        accuracies = {name: share(right[name][:, 0], sources, true) for name in settings}
        return {
            "regions": len(true),
            "images": len(set(sources)),
            "classes": {NAMES[int(c)]: int((true == c).sum()) for c in np.unique(true)},
            "ways": accuracies,
            "size_and_colour": share(plain, sources, true),
            "majority": 1 / len(np.unique(true)),
            "iou": share(right["iou"], sources, true),
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
