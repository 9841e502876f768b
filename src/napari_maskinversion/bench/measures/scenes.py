"""``bench scenes``, ``steps`` and ``alpha``: new scenes and real images, named region by region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...base.progress import listening
from ...demo_model.domains import KINDS, NAMES, Split
from ...demo_model.sprites import SETS
from ...engine.invert.dice import upsample_heatmap
from ...engine.invert.inverter import MaskInverter
from ...engine.invert.loop import StepState
from ...engine.settings import InversionConfig
from ..datasets.scenes import (
    Case,
    ModelUnderTest,
    SceneSource,
    draw_windows,
    kinds_of,
    labels_of,
    pictures,
    sources_of,
)
from .figures_file import Figures, FiguresFile, Report, Tell
from .scene_methods import (
    SCENE_METHODS,
    Setting,
    Texts,
    choose_settings,
    invert,
    overlap,
    read_setting,
    usual_settings,
    why_not,
)
from .statistics import discriminant, hits, share, size_and_colour

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
            right.append(self._right("cls", batch, setting, self._texts[1], labels_of(batch)))
            sources += sources_of(batch)
            tell(len(sources) / count)
        return {"scenes": len(sources), **_two(np.concatenate(right), sources)}

    def _choice(self, tell: Tell) -> Figures:
        cases = list(self._scenes.draw("seen", self.plan.validation, 3, "validation"))
        return self._chosen(cases, self._texts, tell)

    def _chosen(
        self, cases: list[Case], texts: Texts, tell: Tell, *, macro: bool = False
    ) -> Figures:
        return choose_settings(
            *(self.subject, cases, texts, self.plan.inversion),
            resolution=self.plan.resolution,
            macro=macro,
            on_step=tell,
        )

    def _settings(self, domain: str) -> dict[str, Setting]:
        if self.plan.short:
            return usual_settings(self.subject, self.plan.resolution)
        choice = self.record.parts[f"choice/{domain}"]
        return {m: read_setting(choice[m]["setting"]) for m in choice if m in SCENE_METHODS}

    def _regions(self, kind: str, objects: int, tell: Tell) -> Figures:
        count, settings = self.plan.scenes, self._settings("scenes")
        drawn = self._scenes.draw(kind, count, objects)
        right, cases = self._every(drawn, count, settings, self._texts, tell)
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
        """Measure cases, some at once; return what `_named` returns of all, and the cases."""
        rows: list[dict[str, NDArray[Any]]] = []
        done: list[Case] = []
        for batch in _together(cases):
            rows.append(self._named(batch, settings, texts))
            done += batch
            tell(len(done) / count)
        return {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}, done

    def _named(
        self, cases: tuple[Case, ...], settings: dict[str, Setting], texts: Texts
    ) -> dict[str, NDArray[Any]]:
        """Return hits (regions, 2) of every method, and the heatmaps' overlaps (regions,)."""
        true = np.searchsorted(texts[0], labels_of(cases))
        setting = settings["maskinversion"]
        embeddings, overlaps = invert(self.subject, cases, setting, self.plan.inversion)
        others = {
            name: self._right(name, cases, setting, texts[1], true)
            for name, setting in settings.items()
            if name != "maskinversion"
        }
        return {"iou": overlaps, "maskinversion": hits(embeddings, texts[1], true), **others}

    def _right(
        self,
        method: str,
        cases: tuple[Case, ...],
        setting: Setting,
        texts: NDArray[np.float32],
        true: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        embed = SCENE_METHODS[method].embed
        return hits(embed(self.subject, cases, setting, self.plan.inversion), texts, true)

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
        right, _ = self._every(test, len(test), settings, texts, tell)
        true, sources = labels_of(test), sources_of(test)
        train, labels = size_and_colour(training)
        plain = discriminant(train, labels, size_and_colour(test)[0]) == true
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


# -- curves over steps and over alpha ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """One curve."""

    kind: str
    values: tuple[float, ...]  # The points: 0 to K, or weights of the regulariser
    # Everything else; for a curve over steps, ``steps`` is the last point
    inversion: InversionConfig
    resolution: int  # Pixels of the model's input
    scenes: int
    objects: int
    short: bool = False  # Only drawings that come with the package
    sprites: Path | None = None  # Folder of the emoji sets

    def settings(self, subject: ModelUnderTest) -> dict[str, Any]:
        """Return everything the figures depend on."""
        return {
            "model": subject.model.name,
            "fingerprint": subject.model.fingerprint,
            "names": len(subject.names),
            **{k: v for k, v in asdict(self).items() if k not in ("inversion", "sprites")},
            "inversion": dict(self.inversion),
        }


class CurveBench(SceneBench):
    """Measures the parts of a curve, one for each kind of drawings."""

    plan: CurvePlan

    def _parts(self) -> Iterator[tuple[str, Callable[[Tell], Figures]]]:
        for kind in kinds_of(short=self.plan.short):
            yield kind, partial(self._measure, kind)

    def _measure(self, kind: str, tell: Tell) -> dict[str, Any]:
        cases = list(self._scenes.draw(kind, self.plan.scenes, self.plan.objects))
        return measure_curve(self.subject, cases, self.plan, tell)


def measure_curve(
    subject: ModelUnderTest, cases: Sequence[Case], plan: CurvePlan, tell: Tell = lambda _: None
) -> dict[str, Any]:
    """Measure one curve on these cases."""
    inverter = MaskInverter(subject.model)
    rows: list[list[NDArray[np.float64]]] = []  # per case and value: (M, 4)
    for done, case in enumerate(cases):
        inverter.set_image(case.image, resolution=plan.resolution)
        follow = _steps if plan.kind == "steps" else _alphas
        rows.append(follow(inverter, subject, case, plan))
        tell((done + 1) / len(cases))
    sources = sources_of(cases)
    table = [np.concatenate(column) for column in zip(*rows, strict=True)]
    return {
        "values": list(plan.values),
        "regions": len(sources),
        "top1": [share(points[:, 0], sources) for points in table],
        "iou": [share(points[:, 1], sources) for points in table],
        "dice": [float(points[:, 2].mean()) for points in table],
        "cosine": [float(points[:, 3].mean()) for points in table],
    }


def _steps(
    inverter: MaskInverter, subject: ModelUnderTest, case: Case, plan: CurvePlan
) -> list[NDArray[np.float64]]:
    """Measure all points in one inversion, from the embeddings and maps of every step."""
    embeddings: dict[int, NDArray[np.float32]] = {}
    maps: dict[int, NDArray[np.float32]] = {}

    def keep(news: Any) -> None:
        if isinstance(news, StepState) and news.embeddings is not None:
            embeddings[news.done] = news.embeddings()
            if news.grid_maps is not None:
                maps[news.done] = news.grid_maps()

    with listening(keep):
        losses = inverter.invert(case.masks, plan.inversion).losses
    # The first map is not told; an inversion of one step returns it.
    first = plan.inversion.changed(steps=1, keep_last_step_heatmaps=True)
    start = inverter.invert(case.masks[:1], first).last_step_grid_maps
    assert start is not None
    maps[0] = np.repeat(start, len(case.masks), 0)
    point = partial(_point, inverter, subject, case, plan.inversion.alpha)
    return [point(embeddings[k], maps[k], losses[:, k]) for k in map(int, plan.values)]


def _alphas(
    inverter: MaskInverter, subject: ModelUnderTest, case: Case, plan: CurvePlan
) -> list[NDArray[np.float64]]:
    points = []
    for alpha in plan.values:
        result = inverter.invert(case.masks, plan.inversion.changed(alpha=alpha))
        reached = result.raw_embeddings, result.grid_maps, result.losses[:, -1]
        points.append(_point(inverter, subject, case, alpha, *reached))
    return points


def _point(
    inverter: MaskInverter,
    subject: ModelUnderTest,
    case: Case,
    alpha: float,
    embeddings: NDArray[np.float32],
    maps: NDArray[np.float32],
    losses: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return hit, overlap, Dice loss and cosine to the image's embedding of each mask, (M, 4)."""
    size = (case.masks.shape[1], case.masks.shape[2])
    heat = np.stack([upsample_heatmap(m, inverter.input_size, size) for m in maps])
    image = inverter.image_embedding
    lengths = np.linalg.norm(embeddings, axis=1) * np.linalg.norm(image)
    cosine = embeddings @ image / np.maximum(lengths, 1e-12)
    right = hits(embeddings, subject.texts, case.labels)[:, 0]
    dice = losses - alpha * (1 - cosine)
    return np.stack([right, overlap(heat, case.masks), dice, cosine], 1).astype(np.float64)
