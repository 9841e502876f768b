"""What half precision changes in learning and search: ``benchmarks/half_precision_index.py``.

Indexes and libraries keep embeddings in half precision. On the regions and splits of
``learning_curves.py`` (data named by NAPARI_MASKINVERSION_DATA), a classifier learns from decisions
in both precisions and ranks the words for the regions of other images; and words and regions are
searched for in both. Recorded are the shares of regions whose suggestion, and whose whole order of
words, is the same, the accuracies, and the shares of searches whose first hit, set of the best ten
and order of the best ten are the same, with the largest change of a similarity.
Writes benchmarks/results/half_precision_index.json.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import learning_curves
import measuring
import numpy as np
from learning_curves import Pool, Rows, accuracy, pool_of, split
from numpy.typing import NDArray

from napari_maskinversion import load_model
from napari_maskinversion.bench.measures.figures_file import write_figures

sys.path.append(str(Path(__file__).parents[1]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.cases import subject_of

KINDS = ("aerial", "blood", "nuclei")
METHOD = "maskclip"
COUNTS = (1, 5, 20)  # decisions a class
BEST = 10


def rounded(embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return embeddings as an index gives them back."""
    halves = embeddings.astype(np.float16).astype(np.float32)
    return halves / np.linalg.norm(halves, axis=1, keepdims=True)


def probabilities(pool: Pool, known: Rows, tested: NDArray[np.float32]) -> NDArray[Any]:
    """Return what a classifier of decided rows says about embeddings."""
    groups = pool.images[known].tolist()
    fitted = pool.words.fit(pool.embeddings[known], pool.named(known), groups)
    return fitted.probabilities(tested)


def learned(pool: Pool, seeds: int) -> list[dict[str, float]]:
    """Compare classifiers of both precisions, for each number of decisions a class."""
    half = replace(pool, embeddings=rounded(pool.embeddings))
    rows = []
    for count in COUNTS:
        same_suggestion, same_order, differences = [], [], []
        for seed in range(seeds):
            inside, tested = split(pool, seed)
            inside = np.random.default_rng(seed).permutation(inside)
            classes = [inside[pool.labels[inside] == label] for label in range(len(pool.names))]
            known = np.concatenate([members[:count] for members in classes])
            # The regions of the image in view come from its results, in single precision.
            full = probabilities(pool, known, pool.embeddings[tested])
            halved = probabilities(half, known, pool.embeddings[tested])
            orders = [np.argsort(-scores, axis=1, kind="stable") for scores in (full, halved)]
            same = orders[0] == orders[1]
            same_suggestion.append(same[:, 0].mean())
            same_order.append(same.all(1).mean())
            labels = pool.labels[tested]
            differences.append(accuracy(halved, labels)[0] - accuracy(full, labels)[0])
        rows.append(
            {
                "decisions a class": count,
                "same suggestion": round(float(np.mean(same_suggestion)), 5),
                "same order of words": round(float(np.mean(same_order)), 5),
                "balanced accuracy, half less single": round(float(np.mean(differences)), 5),
                "largest change of accuracy": round(float(np.abs(differences).max()), 5),
            }
        )
    return rows


def searched(pool: Pool) -> dict[str, dict[str, float]]:
    """Compare searches of both precisions, for the words and for each region."""
    half = rounded(pool.embeddings)
    found = {}
    for name, queries in (("words", pool.texts), ("regions", pool.embeddings)):
        single, halved = queries @ pool.embeddings.T, queries @ half.T
        best, best_halved = (
            np.argsort(-scores, axis=1, kind="stable")[:, :BEST] for scores in (single, halved)
        )
        same_order = best == best_halved
        same_set = np.sort(best, axis=1) == np.sort(best_halved, axis=1)
        found[name] = {
            "searches": len(queries),
            "same first hit": round(float(same_order[:, 0].mean()), 5),
            f"same best {BEST}": round(float(same_set.all(1).mean()), 5),
            f"same order of the best {BEST}": round(float(same_order.all(1).mean()), 5),
            "largest change of a similarity": float(f"{np.abs(single - halved).max():.2g}"),
        }
    return found


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8, help="splits")
    parser.add_argument("--per-class", type=int, default=80, help="regions of a class")
    parser.add_argument("--sets", default=",".join(KINDS), help="separated by commas")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "half_precision_index.json")
    chosen = parser.parse_args()
    root = os.environ.get("NAPARI_MASKINVERSION_DATA")
    if not root:
        print("Set NAPARI_MASKINVERSION_DATA to the folder with the photographs.", file=sys.stderr)
        return 2
    learning_curves.PER_CLASS = chosen.per_class
    subject = subject_of(load_model("demo", device="cpu"))
    command = f"python benchmarks/half_precision_index.py --seeds {chosen.seeds}"
    command += f" --per-class {chosen.per_class} --sets {chosen.sets}"
    settings = {**subject.about, "method": METHOD, "command": command}
    page: dict[str, Any] = {**measuring.about(), "settings": settings, "sets": {}}
    for kind in chosen.sets.split(","):
        pool = pool_of(subject, Path(root), kind, METHOD)
        page["sets"][kind] = {
            "regions": len(pool.labels),
            "learned": learned(pool, chosen.seeds),
            "searched": searched(pool),
        }
        write_figures(page, chosen.out)
        print(kind, page["sets"][kind], file=sys.stderr, flush=True)
    print(f"Wrote {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
