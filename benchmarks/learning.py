"""Measure accepted regions: ``python benchmarks/learning.py --variants``.

Regions of the aerial and blood images (folder named by NAPARI_MASKINVERSION_DATA) are embedded once
and kept in the cache folder. A simulated user accepts 5, 10, 20 and 50 regions of one half of the
test images, with their true names, at random or least certain first; the regions of the other half
are then named by text, by exemplars, and by both, and so are the regions of the first half that are
left. Halves and order change with each seed; figures are means over the seeds of the
macro-averaged top-1, with the 2.5th to 97.5th percentile of the seeds. The constants of
`review.exemplars` and its rivals are compared on validation images only (``--variants``).
Writes benchmarks/results/learning.json.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import torch
from numpy.typing import NDArray

from napari_maskinversion import InversionConfig, load_model
from napari_maskinversion.base.atomic_files import atomic_path
from napari_maskinversion.base.cache_folder import cache_folder
from napari_maskinversion.bench.measures.figures_file import write_figures
from napari_maskinversion.demo_model.domains import NAMES, load
from napari_maskinversion.review import exemplars as ours
from napari_maskinversion.review.exemplars import Exemplars, Learner, Scores

sys.path.append(str(Path(__file__).parents[1]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.cases import ModelUnderTest, draw_windows, subject_of
from benchmarks.drawn.methods import Setting, invert

KINDS = ("aerial", "blood")
COUNTS = (0, 5, 10, 20, 50)
ORDERS = ("random", "least certain first")
WEIGHTS = {"text": 0.0, "exemplars": 1.0, "both": ours.WEIGHT}
PER_CLASS = {"validation": 60, "test": 100}
LEAST_LEFT = 20  # regions of the reviewed images that a figure needs


@dataclass(frozen=True)
class Pool:
    """Regions of one kind: embeddings (N, e), text (L, e), true label (N,), image (N,)."""

    embeddings: NDArray[np.float32]
    texts: NDArray[np.float32]
    labels: NDArray[np.int64]
    images: NDArray[np.int64]
    names: tuple[str, ...]
    logit_scale: float

    def some(self, rows: NDArray[np.int64]) -> Pool:
        return replace(
            self,
            embeddings=self.embeddings[rows],
            labels=self.labels[rows],
            images=self.images[rows],
        )

    def learner(self) -> Learner:
        cosines = torch.from_numpy(self.embeddings) @ torch.from_numpy(self.texts).T
        shares = (cosines * self.logit_scale).softmax(1)
        return Learner(self.embeddings, cosines.numpy(), shares.numpy(), self.names, "same")

    def exemplars(self, rows: Any) -> Exemplars:
        names = tuple(self.names[label] for label in self.labels[rows])
        return Exemplars(self.embeddings[rows], names, "same")


def pool_of(subject: ModelUnderTest, folder: Path, kind: str, split: Any, args: Any) -> Pool:
    """Embed regions, each in a window of its own as ``bench scenes`` does, or take kept ones."""
    members, texts = subject.real_texts(kind)
    resolution = args.resolution or subject.model.native_resolution
    most = args.per_class or PER_CLASS[split]
    name = f"{subject.model.fingerprint}-{kind}-{split}-{most}-{resolution}-{args.steps}.npz"
    kept = cache_folder() / "bench" / name
    if not kept.exists():
        cases = list(draw_windows(load(folder, split, [kind]), most))
        print(f"embedding {len(cases)} {split} regions of {kind} images ...", file=sys.stderr)
        setting = Setting(resolution=resolution)
        inverted, _ = invert(subject, cases, setting, InversionConfig(steps=args.steps))
        labels = np.searchsorted(members, np.concatenate([case.labels for case in cases]))
        _, images = np.unique([case.source for case in cases], return_inverse=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(kept) as part, part.open("wb") as file:
            np.savez(file, embeddings=inverted, labels=labels, images=images)
    with np.load(kept) as page:
        embeddings, labels, images = (page[key] for key in ("embeddings", "labels", "images"))
    scale = subject.model.logit_scale
    names = tuple(NAMES[place] for place in members)
    return Pool(embeddings, texts, labels, images, names, scale)


Scorer = Callable[[Learner, Exemplars], NDArray[np.float32]]


def product(weight: float) -> Scorer:
    """Score as `review.exemplars` does."""
    return lambda learner, known: learner.scores(known, weight=weight).values


def centred(learner: Learner, known: Exemplars, centre: bool) -> NDArray[np.float32]:
    """Cosines (N, M), of embeddings less their mean where asked for."""
    own, others = (torch.from_numpy(a) for a in (learner._embeddings, known.embeddings))
    if centre:
        mean = torch.cat([own, others]).mean(0)
        own, others = own - mean, others - mean
    unit = torch.nn.functional.normalize
    return (unit(own, dim=1) @ unit(others, dim=1).T).numpy()


def nearest_mean(cosines: NDArray[Any], known: Exemplars, labels: Any, k: int) -> NDArray[Any]:
    """Mean of the k largest of each label, (N, L); NaN for a label without exemplars."""
    names = np.array(known.labels)
    means = np.full((len(cosines), len(labels)), np.nan, np.float32)
    for place, label in enumerate(labels):
        nearest = np.sort(cosines[:, names == label], axis=1)[:, ::-1][:, :k]
        if nearest.shape[1]:
            means[:, place] = nearest.mean(1)
    return means


def softmax(values: NDArray[Any]) -> NDArray[Any]:
    shares: NDArray[Any] = np.exp(values - values.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return shares


def tip(weight: float, beta: float, alpha: float, centre: bool) -> Scorer:
    """Tip-Adapter: a softmax over the sum of text logits and all cache weights."""

    def score(learner: Learner, known: Exemplars) -> NDArray[Any]:
        cache = np.exp(beta * (centred(learner, known, centre) - 1))
        hot = np.array(known.labels)[:, None] == np.array(learner.labels)[None]
        logits = (1 - weight) * np.log(learner._probabilities + 1e-9)
        return softmax(logits + weight * alpha * (cache @ hot))

    return score


def kernel(weight: float, beta: float, k: int, doubt: float, centre: bool) -> Scorer:
    """Ours: votes of the k nearest of each label, shared out with some doubt."""

    def score(learner: Learner, known: Exemplars) -> NDArray[Any]:
        cache = np.exp(beta * (centred(learner, known, centre) - 1))
        votes = np.nan_to_num(nearest_mean(cache, known, learner.labels, k))
        shares = (votes + doubt / votes.shape[1]) / (votes.sum(1, keepdims=True) + doubt)
        return np.asarray((1 - weight) * learner._probabilities + weight * shares)

    return score


def standard(weight: float, k: int, centre: bool) -> Scorer:
    """Standardise: cosines of text and of nearest exemplars to mean 0 and spread 1 per region."""

    def unit(values: NDArray[Any]) -> NDArray[Any]:
        spread = np.nanstd(values, axis=1, keepdims=True)
        values = (values - np.nanmean(values, axis=1, keepdims=True)) / np.maximum(spread, 1e-6)
        return np.asarray(np.nan_to_num(values))

    def score(learner: Learner, known: Exemplars) -> NDArray[Any]:
        near = nearest_mean(centred(learner, known, centre), known, learner.labels, k)
        return (1 - weight) * unit(learner._similarities) + weight * unit(near)

    return score


def prototypes(weight: float, heat: float, centre: bool) -> Scorer:
    """Compare with the mean exemplar of each label, as softmaxes of text and exemplars."""

    def score(learner: Learner, known: Exemplars) -> NDArray[Any]:
        names = np.array(known.labels)
        there = [label for label in learner.labels if (names == label).any()]
        means = np.stack([known.embeddings[names == label].mean(0) for label in there])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        scores = centred(learner, Exemplars(means, tuple(there), "same"), centre)
        shares = np.zeros_like(learner._probabilities)
        shares[:, [learner.labels.index(label) for label in there]] = softmax(heat * scores)
        return (1 - weight) * learner._probabilities + weight * shares

    return score


def variants() -> dict[str, Scorer]:
    """Return everything compared on validation images, at equal weights."""
    scorers: dict[str, Scorer] = {"text alone": product(0.0)}
    for centre, word in ((False, ""), (True, ", mean removed")):
        for beta in (2.0, 5.0, 8.0, 15.0, 30.0):
            for k in (1, 3, 5):
                for doubt in (0.03, 0.1, 0.3):
                    name = f"shares: sharpness {beta:g}, nearest {k}, doubt {doubt:g}{word}"
                    scorers[name] = kernel(0.5, beta, k, doubt, centre)
            for alpha in (3.0, 10.0, 30.0):
                name = f"Tip-Adapter: sharpness {beta:g}, alpha {alpha:g}{word}"
                scorers[name] = tip(0.5, beta, alpha, centre)
        for k in (1, 3, 5):
            scorers[f"standardised: nearest {k}{word}"] = standard(0.5, k, centre)
        for heat in (3.0, 10.0, 30.0):
            scorers[f"prototypes: heat {heat:g}{word}"] = prototypes(0.5, heat, centre)
    return scorers


def accuracy(values: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Macro-averaged top-1."""
    right = values.argmax(1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def margins(values: NDArray[Any]) -> NDArray[Any]:
    return Scores((), values, values, "").margins


def choose(
    pool: Pool, learner: Learner, scorer: Scorer, order: str, seed: int
) -> NDArray[np.int64]:
    """Rows in the order in which the simulated user accepts them, as many as are needed."""
    rng = np.random.default_rng(seed)
    if order == "random":
        return rng.permutation(len(pool.labels))[: COUNTS[-1]]
    # Ties and the first ones are random; certainty is updated after each decision.
    jitter = rng.random(len(pool.labels)) * 1e-6
    taken: list[int] = []
    while len(taken) < min(COUNTS[-1], len(pool.labels)):
        values = scorer(learner, pool.exemplars(taken)) if taken else learner._probabilities
        unsure = margins(values) + jitter
        unsure[taken] = np.inf
        taken.append(int(unsure.argmin()))
    return np.array(taken)


def halves(pool: Pool, seed: int) -> tuple[Pool, Pool]:
    """Split the images at random: one half to review, the other to name."""
    images = np.random.default_rng(seed).permutation(np.unique(pool.images))
    first = np.isin(pool.images, images[: len(images) // 2])
    return pool.some(np.flatnonzero(first)), pool.some(np.flatnonzero(~first))


def curve(pool: Pool, order: str, seeds: int) -> dict[str, Any]:
    """Accuracy of each way at each count on the other images and on what is left."""
    tables: dict[str, dict[str, list[list[float]]]] = {
        where: {way: [] for way in WEIGHTS} for where in ("other images", "same images")
    }
    for seed in range(seeds):
        here, there = halves(pool, seed)
        learners = {"same images": here.learner(), "other images": there.learner()}
        for way, weight in WEIGHTS.items():
            # A user who reviews with one method is also led by it.
            scorer = product(weight)
            rows = choose(here, learners["same images"], scorer, order, seed)
            for where, learner in learners.items():
                line = []
                for count in COUNTS:
                    if count > len(rows) or (way == "exemplars" and not count):
                        line.append(np.nan)
                        continue
                    known = here.exemplars(rows[:count])
                    values = scorer(learner, known)
                    if where == "same images":
                        left = np.setdiff1d(np.arange(len(here.labels)), rows[:count])
                        enough = len(left) >= LEAST_LEFT
                        line.append(accuracy(values[left], here.labels[left]) if enough else np.nan)
                    else:
                        line.append(accuracy(values, there.labels))
                tables[where][way].append(line)
    return {
        where: {way: summary(np.array(lines)) for way, lines in ways.items()}
        for where, ways in tables.items()
    }


def summary(lines: NDArray[Any]) -> list[dict[str, float] | None]:
    """Mean and percentiles over the seeds, None where a seed has no figure."""
    rows: list[dict[str, float] | None] = []
    for column in lines.T:
        if np.isnan(column).any():
            rows.append(None)
            continue
        low, high = np.percentile(column, (2.5, 97.5))
        rows.append({"value": float(column.mean()), "low": float(low), "high": float(high)})
    return rows


def compare(pools: dict[str, Pool], seeds: int) -> list[dict[str, Any]]:
    """Mean accuracy of each variant on validation images, best first."""
    rows = []
    for name, scorer in variants().items():
        row: dict[str, Any] = {"variant": name}
        for kind, pool in pools.items():
            lines = []
            for seed in range(seeds):
                here, there = halves(pool, seed)
                learner = there.learner()
                chosen = np.random.default_rng(seed).permutation(len(here.labels))
                lines.append(
                    [
                        accuracy(scorer(learner, here.exemplars(chosen[:count])), there.labels)
                        for count in COUNTS[1:]
                    ]
                )
            row[kind] = [round(float(v), 4) for v in np.mean(lines, axis=0)]
        row["mean"] = round(float(np.mean([row[kind] for kind in pools])), 4)
        rows.append(row)
    return sorted(rows, key=lambda row: -row["mean"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo")
    parser.add_argument("--resolution", type=int, help="pixels; the model's native one by default")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--per-class", type=int, help="regions of a class at most; default 60, 100")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--variants", action="store_true", help="also compare scores on validation")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "learning.json")
    args = parser.parse_args()
    root = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not root:
        print("Set NAPARI_MASKINVERSION_DATA to the folder with the photographs.", file=sys.stderr)
        return 2
    subject = subject_of(load_model(args.model, device="cpu"))
    page: dict[str, Any] = {
        **measuring.about(),
        "settings": {
            "model": subject.model.name,
            "fingerprint": subject.model.fingerprint,
            "resolution": args.resolution or subject.model.native_resolution,
            "steps": args.steps,
            "seeds": args.seeds,
            "accepted": COUNTS,
            "weight of exemplars": ours.WEIGHT,
            "nearest": ours.NEAREST,
            "sharpness": ours.SHARPNESS,
            "doubt": ours.SMOOTHING,
        },
        "kinds": {},
    }
    folder = Path(root)
    for kind in KINDS:
        pool = pool_of(subject, folder, kind, "test", args)
        page["kinds"][kind] = {
            "regions": len(pool.labels),
            "images": len(np.unique(pool.images)),
            "names": len(pool.names),
            **{order: curve(pool, order, args.seeds) for order in ORDERS},
        }
    if args.variants:
        pools = {k: pool_of(subject, folder, k, "validation", args) for k in KINDS}
        page["variants"] = compare(pools, args.seeds)
    write_figures(page, args.out)
    print(f"Wrote {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
