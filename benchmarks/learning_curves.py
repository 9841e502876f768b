"""Measure what decisions teach: ``python benchmarks/learning_curves.py``.

Regions of the test images of the aerial, blood and nuclei sets (folder named by
NAPARI_MASKINVERSION_DATA) are embedded once, each in a window of its own as ``bench scenes`` does,
and kept in the cache folder. Each seed takes three fifths of the images for decisions, drawn at
random from each class, and measures on the regions of the others. Every part is measured twice:
with words that the model was taught, and with other words of its vocabulary that say nothing about
these images, as a user's words may. Figures are means over the seeds with Student's 95 % interval.
Parts (``--parts``): ways (of using decisions), difference (of classifier and exemplars, on four
times as many splits), one image (the same, with decisions about the image of the tested regions),
both also with embeddings of another method (maskclip), orders (in which to decide), doubtful
(decisions).
Writes benchmarks/results/learning-curves.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from numpy.typing import NDArray

from napari_maskinversion import InversionConfig, load_model
from napari_maskinversion.base.atomic_files import atomic_path
from napari_maskinversion.base.cache_folder import cache_folder
from napari_maskinversion.bench.measures.figures_file import write_figures
from napari_maskinversion.demo_model.domains import KINDS, NAMES, load
from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.features import KINDS as ALL_FEATURES
from napari_maskinversion.learning.features import Measured, measured
from napari_maskinversion.regions.measures import measure
from napari_maskinversion.results.orders import farthest

sys.path.append(str(Path(__file__).parents[1]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.cases import PROMPT, ModelUnderTest, draw_windows, subject_of
from benchmarks.drawn.methods import SCENE_METHODS, Setting

COUNTS = (0, 1, 2, 5, 10, 20, 50)
MEASURES = ("balanced", "plain")
FURTHER = 400  # Seeds from here on; alternatives were compared on 1000 to 1023
OF_AN_IMAGE = (1, 2, 3, 5)  # Decisions a class
LEAST_TESTED = 3  # Regions of an image
DRAWN = 3  # Decisions are drawn so often on each image
OTHER_WORDS = ("elephant", "guitar", "lemon", "castle", "umbrella")
PER_CLASS = 250
SHARE = 0.6  # of the images, for decisions
STEPS = 10
Rows = NDArray[np.intp]
Scores = NDArray[Any]


@dataclass(frozen=True)
class Pool:
    """Regions: embeddings (N, e), properties (N, p), text (L, e), true label and image (N,)."""

    embeddings: NDArray[np.float32]
    properties: NDArray[np.float64]
    measures: tuple[str, ...]  # Their names, as `library train --features` has them
    texts: NDArray[np.float32]
    labels: NDArray[np.int64]
    images: NDArray[np.int64]
    names: tuple[str, ...]
    scale: float

    @property
    def words(self) -> Classifier:
        return Classifier.of_words(self.names, self.texts, self.scale)

    def named(self, rows: Rows) -> list[str]:
        return [self.names[label] for label in self.labels[rows]]


def pool_of(subject: ModelUnderTest, folder: Path, kind: str, method: str) -> Pool:
    """Embed regions by a method, or take kept embeddings."""
    members, texts = subject.real_texts(kind)
    cases = list(draw_windows(load(folder, "test", [kind]), PER_CLASS))
    resolution = subject.model.native_resolution
    name = f"curves-{subject.model.fingerprint}-{method}-{kind}-{PER_CLASS}.npy"
    kept = cache_folder() / "bench" / name
    if not kept.exists():
        print(f"embedding {len(cases)} regions of {kind} images ...", file=sys.stderr)
        setting, inversion = Setting(resolution=resolution), InversionConfig(steps=STEPS)
        embeddings = SCENE_METHODS[method].embed(subject, cases, setting, inversion)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(kept) as part, part.open("wb") as file:
            np.save(file, embeddings)
    labels = np.searchsorted(members, np.concatenate([case.labels for case in cases]))
    _, images = np.unique([case.source for case in cases], return_inverse=True)
    names = tuple(NAMES[place] for place in members)
    regions = [region for case in cases for region in regions_of(case)]
    found, _, properties, _ = measured(ALL_FEATURES, regions)
    scale = subject.model.logit_scale
    return Pool(np.load(kept), properties, found, texts, labels, images, names, scale)


def regions_of(case: Any) -> list[Measured]:
    """Measure each region of a case, as a run with ``--measure`` does."""
    regions = []
    for mask in case.masks:
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        y0, x0, y1, x1 = int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1
        found = measure(mask[y0:y1, x0:x1], partial(rows_of, case.image[y0:y1, x0:x1]))
        regions.append(Measured(float(mask.sum()), (y0, x0, y1, x1), found))
    return regions


def rows_of(pixels: NDArray[Any], top: int, bottom: int) -> NDArray[Any]:
    return pixels[top:bottom]


def split(pool: Pool, seed: int) -> tuple[Rows, Rows]:
    """Return rows for decisions and rows to measure on: other images, every class in both."""
    rng, images = np.random.default_rng(seed), np.unique(pool.images)
    while True:
        chosen = rng.permutation(images)[: round(SHARE * len(images))]
        inside = np.isin(pool.images, chosen)
        if all(len(set(pool.labels[part])) == len(pool.names) for part in (inside, ~inside)):
            return np.flatnonzero(inside), np.flatnonzero(~inside)


# -- ways of using decisions --------------------------------------------------------------------


def text(pool: Pool, known: Rows, tested: Rows) -> Scores:
    return pool.words.probabilities(pool.embeddings[tested])


def exemplars(pool: Pool, known: Rows, tested: Rows) -> Scores:
    """Score as the plugin did before it had a classifier: half text, half votes.

    A label's vote is the mean weight, as of Tip-Adapter's cache, of its three nearest decisions.
    """
    rows = [pool.embeddings[known], pool.embeddings[tested]]
    centre = np.vstack(rows).mean(0)
    decided, own = (one - centre for one in rows)
    decided /= np.linalg.norm(decided, axis=1, keepdims=True)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    weights = np.exp(5 * (own @ decided.T - 1))
    votes = np.zeros((len(tested), len(pool.names)))
    for label in np.unique(pool.labels[known]):
        votes[:, label] = np.sort(weights[:, pool.labels[known] == label])[:, -3:].mean(1)
    shares = (votes + 0.1 / votes.shape[1]) / (votes.sum(1, keepdims=True) + 0.1)
    return 0.5 * text(pool, known, tested) + 0.5 * shares


def forest(inputs: Callable[[Pool], NDArray[Any]]) -> Way:
    """Random forest, with the usual settings of scikit-learn but balanced classes."""

    def score(pool: Pool, known: Rows, tested: Rows) -> Scores:
        from sklearn.ensemble import RandomForestClassifier

        trees = RandomForestClassifier(100, class_weight="balanced", random_state=0)
        trees.fit(inputs(pool)[known], pool.labels[known])
        scores = np.zeros((len(tested), len(pool.names)))
        scores[:, trees.classes_] = trees.predict_proba(inputs(pool)[tested])
        return scores

    return score


def classifier(properties: bool) -> Way:
    def score(pool: Pool, known: Rows, tested: Rows) -> Scores:
        beside = pool.properties if properties else None
        fitted = pool.words.fit(
            pool.embeddings[known],
            pool.named(known),
            pool.images[known].tolist(),
            features=None if beside is None else beside[known],
            names=pool.measures * properties,
        )
        return fitted.probabilities(
            pool.embeddings[tested], None if beside is None else beside[tested]
        )

    return score


Way = Callable[[Pool, Rows, Rows], Scores]
WAYS: dict[str, Way] = {
    "words alone": text,
    "exemplars": exemplars,
    "random forest on embeddings": forest(lambda pool: pool.embeddings),
    "random forest on properties": forest(lambda pool: pool.properties),
    "classifier": classifier(properties=False),
    "classifier with properties": classifier(properties=True),
}
NEED_DECISIONS = tuple(name for name in WAYS if name.startswith("random forest"))


def accuracy(scores: Scores, labels: NDArray[np.int64]) -> tuple[float, float]:
    """Return the balanced and the plain accuracy."""
    right = scores.argmax(1) == labels
    return float(np.mean([right[labels == one].mean() for one in np.unique(labels)])), right.mean()


def accuracies(pool: Pool, seeds: range, ways: dict[str, Way]) -> tuple[Scores, Scores]:
    """Return accuracies (ways, counts, seeds, measures), and how many decisions (counts, seeds)."""
    found = np.full((len(ways), len(COUNTS), len(seeds), len(MEASURES)), np.nan)
    decided = np.zeros((len(COUNTS), len(seeds)))
    for place, seed in enumerate(seeds):
        inside, tested = split(pool, seed)
        inside = np.random.default_rng(seed).permutation(inside)
        classes = [inside[pool.labels[inside] == one] for one in range(len(pool.names))]
        for at, count in enumerate(COUNTS):
            known = np.concatenate([rows[:count] for rows in classes])
            decided[at, place] = len(known)
            for row, (name, way) in enumerate(ways.items()):
                if not count and name in NEED_DECISIONS:
                    continue
                scores = (way if count else text)(pool, known, tested)
                found[row, at, place] = accuracy(scores, pool.labels[tested])
    return found, decided


def ways(pool: Pool, seeds: int) -> dict[str, Any]:
    """Measure each way after each number of decisions a class."""
    found, decided = accuracies(pool, range(seeds), WAYS)
    return {
        "decisions": decided.mean(1).round(1).tolist(),
        "ways": {
            name: {kind: table(found[place, ..., at]) for at, kind in enumerate(MEASURES)}
            for place, name in enumerate(WAYS)
        },
    }


def difference(pool: Pool, seeds: int) -> dict[str, Any]:
    """Measure the classifier less exemplars on further splits, with which nothing was chosen."""
    two = {name: WAYS[name] for name in ("exemplars", "classifier")}
    found, _ = accuracies(pool, range(FURTHER, FURTHER + 4 * seeds), two)
    better = found[1] - found[0]
    return {kind: table(better[..., at], -1.0) for at, kind in enumerate(MEASURES)}


def one_image(pool: Pool, seeds: int) -> dict[str, Any]:
    """Measure the same on other regions of the image of the decisions, as means over images.

    Images of one class tell nothing.
    """
    images = np.unique(pool.images)
    better = np.full((len(OF_AN_IMAGE), len(images), DRAWN, len(MEASURES)), np.nan)
    for place, image in enumerate(images):
        of_image = np.flatnonzero(pool.images == image)
        classes = np.unique(pool.labels[of_image])
        for seed in range(DRAWN * (len(classes) > 1)):
            rows = np.random.default_rng((FURTHER + seed, image)).permutation(of_image)
            by_class = [rows[pool.labels[rows] == one] for one in classes]
            for at, count in enumerate(OF_AN_IMAGE):
                known = np.concatenate([one[:count] for one in by_class])
                tested = np.setdiff1d(rows, known)
                if len(tested) < LEAST_TESTED:
                    continue
                by_both = (WAYS[name](pool, known, tested) for name in ("exemplars", "classifier"))
                old, new = (np.array(accuracy(one, pool.labels[tested])) for one in by_both)
                better[at, place, seed] = new - old
    usable = np.isfinite(better[..., 0]).all(2)  # (counts, images)
    means = [better[at, one].mean(1) for at, one in enumerate(usable)]
    return {
        "images": usable.sum(1).tolist(),
        **{
            kind: [figure(one[:, at], -1.0, 1.0) if len(one) > 1 else None for one in means]
            for at, kind in enumerate(MEASURES)
        },
    }


def table(values: NDArray[Any], least: float = 0.0) -> list[dict[str, float] | None]:
    """Return a figure for each row (one value a seed), None where there is none."""
    return [None if np.isnan(row).any() else figure(row, least, 1.0) for row in values]


def figure(values: NDArray[Any], least: float, most: float) -> dict[str, float]:
    """Return the mean with Student's 95 % interval, cut at what is possible."""
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    mean = values.mean()
    return {
        key: round(float(one), 4)
        for key, one in (
            ("value", mean),
            ("low", max(mean - half, least)),
            ("high", min(mean + half, most)),
        )
    }


# -- in which order to decide -------------------------------------------------------------------

BATCH, BUDGET = 5, 100  # decisions after which is learned; decisions of a simulated review
ENOUGH = 0.95  # of the accuracy after all decisions
Order = Callable[[NDArray[Any], NDArray[Any], NDArray[np.bool_], np.random.Generator], Rows]


def margins_of(chances: NDArray[Any]) -> NDArray[Any]:
    best = np.sort(chances, axis=1)
    return np.asarray(best[:, -1] - best[:, -2])


def by_chance(chances: Any, embeddings: Any, decided: Any, rng: np.random.Generator) -> Rows:
    return rng.permutation(np.flatnonzero(~decided))[:BATCH]


def by_margin(chances: Any, embeddings: Any, decided: Any, rng: np.random.Generator) -> Rows:
    left = rng.permutation(np.flatnonzero(~decided))
    return left[np.argsort(margins_of(chances[left]), kind="stable")[:BATCH]]


def by_core_set(chances: Any, embeddings: Any, decided: Any, rng: np.random.Generator) -> Rows:
    return farthest(embeddings, decided, BATCH)


def by_both(chances: Any, embeddings: Any, decided: Any, rng: np.random.Generator) -> Rows:
    """Of the ten batches with the least margins, the farthest rows."""
    left = np.flatnonzero(~decided)
    doubtful = left[np.argsort(margins_of(chances[left]), kind="stable")[: 10 * BATCH]]
    rows = np.concatenate([np.flatnonzero(decided), doubtful])
    return rows[farthest(embeddings[rows], decided[rows], BATCH)]


ORDERS: dict[str, Order] = {
    "random": by_chance,
    "least margin": by_margin,
    "core-set": by_core_set,
    "both": by_both,
}


def learned(pool: Pool, rows: Rows) -> Classifier:
    """Learn from these decisions at the usual strength; of one class, there is nothing to learn."""
    if len(set(pool.labels[rows])) < 2:
        return pool.words
    images = pool.images[rows].tolist()
    return pool.words.fit(pool.embeddings[rows], pool.named(rows), images, validate=False)


def orders(pool: Pool, seeds: int) -> dict[str, Any]:
    """Count the decisions that each order needs, and keep the mean accuracy on the way."""
    needed = np.zeros((len(ORDERS), seeds))
    curves = np.zeros((len(ORDERS), seeds, BUDGET // BATCH + 1))
    for seed in range(seeds):
        inside, tested = split(pool, seed)
        inside, truth = np.sort(inside), pool.labels[tested]
        final = accuracy(learned(pool, inside).probabilities(pool.embeddings[tested]), truth)[0]
        for place, order in enumerate(ORDERS.values()):
            rng, decided = np.random.default_rng(seed), np.zeros(len(inside), bool)
            for step in range(curves.shape[2]):
                known = learned(pool, inside[decided])
                scores = known.probabilities(pool.embeddings[tested])
                curves[place, seed, step] = accuracy(scores, truth)[0]
                chances = known.probabilities(pool.embeddings[inside])
                decided[order(chances, pool.embeddings[inside], decided, rng)] = True
            below = np.flatnonzero(curves[place, seed] < ENOUGH * final)
            needed[place, seed] = BATCH * (below[-1] + 1) if len(below) else 0
    return {
        name: {
            "decisions": figure(needed[place], 0, BUDGET + BATCH),
            "less than random": figure(needed[0] - needed[place], -np.inf, np.inf),
            "accuracy": curves[place].mean(0).round(4).tolist(),
        }
        for place, name in enumerate(ORDERS)
    }


# -- doubtful decisions -------------------------------------------------------------------------

FLIPPED = 0.05


def doubtful(pool: Pool, seeds: int) -> dict[str, Any]:
    """Give every twentieth decision another word, and look for them."""
    found = np.full((3, seeds), np.nan)
    for seed in range(seeds):
        inside, _ = split(pool, seed)
        rng, truth, count = np.random.default_rng(seed), pool.labels[inside], len(pool.names)
        wrong = np.zeros(len(inside), bool)
        wrong[rng.permutation(len(inside))[: round(FLIPPED * len(inside))]] = True
        moved = (truth + rng.integers(1, count, len(truth))) % count
        labels = [pool.names[label] for label in np.where(wrong, moved, truth)]
        fitted = pool.words.fit(pool.embeddings[inside], labels, pool.images[inside].tolist())
        listed = np.zeros(len(inside), bool)
        listed[[row for row, _ in fitted.doubtful(labels)]] = True
        hits = np.count_nonzero(listed & wrong)
        found[:, seed] = hits / max(listed.sum(), 1), hits / wrong.sum(), listed.mean()
    names = ("precision", "recall", "share listed")
    return {name: figure(values, 0, 1) for name, values in zip(names, found, strict=True)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parts", default=";".join(PARTS), help="separated by semicolons")
    parser.add_argument("--sets", default=",".join(KINDS), help="separated by commas")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "learning-curves.json")
    args = parser.parse_args()
    root = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not root:
        print("Set NAPARI_MASKINVERSION_DATA to the folder with the photographs.", file=sys.stderr)
        return 2
    subject = subject_of(load_model("demo", device="cpu"))
    page: dict[str, Any] = {
        **measuring.about(),
        "settings": {
            **subject.about,
            "steps": STEPS,
            "seeds": args.seeds,
            "share of images for decisions": SHARE,
            "decisions a class": COUNTS,
            "decisions a class of one image": OF_AN_IMAGE,
            "first seed of differences": FURTHER,
            "other words": OTHER_WORDS,
            "batch": BATCH,
            "enough": ENOUGH,
            "flipped": FLIPPED,
        },
        # Parts and sets that are not measured now stay as they were.
        "sets": json.loads(args.out.read_text("utf-8"))["sets"] if args.out.exists() else {},
    }
    others = subject.model.encode_text([PROMPT.format(word) for word in OTHER_WORDS])
    parts = {name: PARTS[name] for name in args.parts.split(";")}
    for kind in args.sets.split(","):
        found = page["sets"].setdefault(kind, {})
        for part, figures in parts.items():
            method = "maskclip" if part.endswith("maskclip") else "maskinversion"
            pool = pool_of(subject, Path(root), kind, method)
            found["regions"], found["images"] = len(pool.labels), len(np.unique(pool.images))
            found["classes"] = dict(zip(pool.names, np.bincount(pool.labels).tolist(), strict=True))
            worded = {"words": pool, "other words": replace(pool, texts=others[: len(pool.names)])}
            found[part] = {words: figures(one, args.seeds) for words, one in worded.items()}
            write_figures(page, args.out)
            print(f"{kind}: {part}", file=sys.stderr)
    print(f"Wrote {args.out}")
    return 0


PARTS: dict[str, Callable[[Pool, int], dict[str, Any]]] = {
    "ways": ways,
    "difference": difference,
    "difference, maskclip": difference,
    "one image": one_image,
    "one image, maskclip": one_image,
    "orders": orders,
    "doubtful": doubtful,
}


if __name__ == "__main__":
    sys.exit(main())
