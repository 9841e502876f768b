"""The region library at 10 thousand, 100 thousand and 1 million regions: time, memory, recall.

    python benchmarks/library.py [--counts 10000 100000 1000000] [--width 512]

Embeddings are those of image parts by the demo model (its own images and those of
``NAPARI_MASKINVERSION_DATA``), projected at random to the width of a ViT-B/16 and repeated with
jitter: the directions and clusters are real, their number is not. "real" are the 3,000 as they are.
Recall is against single precision of the embeddings before they were stored, and as they are stored
(half precision). Memory is the peak of a process that searches twice, with pages of files that the
system may drop; what it holds itself stands beside it, most of it PyTorch's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

import measuring
import numpy as np
from numpy.typing import NDArray

JITTER = 0.15  # length of the noise that tells copies apart
QUERIES = 20
REAL = 3000  # embeddings of image parts
ONE_SEARCH = """
import sys
from pathlib import Path
import numpy as np
from napari_maskinversion import Library
for query in np.load(sys.argv[2]):
    Library.open(sys.argv[1]).search(like=[query])
lines = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss has the parent's, too
held = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmHWM", "RssA"))}
print(*(int(held[name]) // 1024 for name in ("VmHWM", "RssAnon")))
"""
MASKS = ("labels", "panoptic", "annotations")  # folders without images


def real_embeddings(most: int) -> NDArray[np.float32]:
    """Return unit embeddings (n, e) of tiles of images by the demo model."""
    import napari_maskinversion as nmi

    folders = [measuring.SAMPLE.parent, Path(os.environ.get("NAPARI_MASKINVERSION_DATA", "."))]
    by_folder: dict[Path, list[Path]] = {}
    for file in (file for folder in folders for file in sorted(folder.rglob("*.[pj][np]g"))):
        if "_regions" not in file.name and file.parent.name not in MASKS:
            by_folder.setdefault(file.parent, []).append(file)
    files = [file for some in zip_longest(*by_folder.values()) for file in some if file]
    embedder, rows = nmi.region_embedder("crop", nmi.load_model("demo", device="cpu")), []
    for file in files:
        try:
            image = nmi.read_image(file)
        except nmi.errors.InputError:
            continue
        side = max(16, min(image.shape[:2]) // 6)
        masks = [np.zeros(image.shape[:2], bool) for _ in range(16)]
        for number, mask in enumerate(masks):
            y, x = (number // 4) * side, (number % 4) * side
            mask[y : y + side, x : x + side] = True
        embedder.set_image(image)
        rows.append(embedder.embed(np.stack(masks)))
        count = 16 * len(rows)
        if count % 320 == 0:
            print(f"{count} of {most} real embeddings", flush=True)
        if count >= most:
            break
    return np.concatenate(rows)


def enlarged(real: NDArray[np.float32], count: int, width: int) -> NDArray[np.float32]:
    """Return so many unit vectors around real ones, (count, width)."""
    rng = np.random.default_rng(0)
    real = real @ np.linalg.qr(rng.normal(size=(width, real.shape[1])))[0].T.astype(np.float32)
    rows = np.empty((count, width), np.float32)
    for start in range(0, count, 100_000):
        part = real[rng.integers(len(real), size=len(rows[start : start + 100_000]))]
        part = part + JITTER / width**0.5 * rng.standard_normal(part.shape, np.float32)
        rows[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def add(store: Any, vectors: NDArray[np.float32], first: int, number: int) -> None:
    """Add rows of vectors to a library, as the regions of one image."""
    from napari_maskinversion.base.identity import ImageIdentity, ImagePlace
    from napari_maskinversion.results.spaces import Space

    about = '{"architecture": null, "model": "demo", "space": "x"}'
    space = Space(about=about, width=vectors.shape[1])
    box = {"y0": 0, "x0": 0, "y1": 9, "x1": 9, "area": 81.0, "confidence": 0.5}
    texts = {"plane": "", "decision": "undecided", "date": "2026-11-27", "measures": ""}
    rows = [
        {"region": n, "label": f"w{n % 50}", "suggestion": f"w{n % 50}", **box, **texts}
        for n in range(first, first + number)
    ]
    place = ImagePlace(f"/images/{first}.png")
    identity = ImageIdentity(f"{first}.png", content=str(first))
    store.write(space, place, identity, rows, vectors[first : first + number])


def queries_of(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit vectors to look for, each near one of the library's."""
    queries = vectors[:: max(1, len(vectors) // QUERIES)][:QUERIES] + 0.02
    unit: NDArray[np.float32] = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    return unit


def measure(vectors: NDArray[np.float32], folder: Path) -> dict[str, Any]:
    import torch

    from napari_maskinversion import Library
    from napari_maskinversion.library.store import Store

    count, width = vectors.shape
    library, store = Library.new(folder), Store(folder)
    firsts = range(0, count - 1000, 1000)
    seconds = measuring.timed(lambda: [add(store, vectors, n, 1000) for n in firsts])
    one_image = measuring.timed(lambda: add(store, vectors, count - 1000, 50))
    add(store, vectors, count - 950, 950)
    queries = queries_of(vectors)
    library.search(like=[queries[0]])
    times = [measuring.timed(lambda q=q: library.search(like=[q])) for q in queries]
    filtered = [measuring.timed(lambda q=q: library.search(like=[q], label="w7")) for q in queries]
    recall: dict[str, list[float]] = {"recall_100": [], "recall_100_of_what_is_stored": []}
    halves, missed = vectors.astype(np.float16), 0.0
    for query in queries:
        found = {n - 1 for n in library.search(like=[query])["id"]}
        for own, rows in zip(recall.values(), (vectors, halves), strict=True):
            parts = torch.from_numpy(rows).split(100_000)
            scores = torch.cat([part.float().mv(torch.from_numpy(query)) for part in parts])
            best = scores.topk(100)
            own.append(len(found & set(best.indices.tolist())) / 100)
            if rows is vectors:
                missed = max(missed, float(best.values[-1] - scores[list(found)].min()))
    np.save(folder.parent / "queries.npy", queries[:2])
    alone = [sys.executable, "-c", ONE_SEARCH, str(folder), str(folder.parent / "queries.npy")]
    told = subprocess.run(alone, capture_output=True, text=True, check=True).stdout
    peak, held = map(int, told.split())
    with closing(sqlite3.connect(folder / "rows.db")) as database:
        assert database.execute("SELECT count(*) FROM regions").fetchone()[0] == count
    return {
        "add_s": round(seconds, 1),
        "add_50_ms": round(1000 * one_image, 1),
        "search_ms": round(1000 * median(times), 1),
        "search_of_one_class_ms": round(1000 * median(filtered), 1),
        **{name: round(float(np.mean(own)), 4) for name, own in recall.items()},
        "largest_similarity_that_was_missed_by": round(missed, 6),
        "peak_mb_of_a_process_that_searches": peak,
        "of_which_no_file_pages_mb": held,
        "disk_mb": round(sum(f.stat().st_size for f in folder.iterdir()) / 1e6),
        "mapped_mb": round(count * width * 2 / 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--width", type=int, default=512)
    chosen = parser.parse_args()
    real = real_embeddings(REAL)[:REAL]
    for count in ["real", *chosen.counts]:
        print(f"{count} regions: adding, searching", flush=True)
        folder = Path(tempfile.mkdtemp())
        try:
            rows = real if count == "real" else enlarged(real, count, chosen.width)
            row = measure(rows, folder / "library")
        finally:
            shutil.rmtree(folder)
        row |= {"real_embeddings": len(real), "load": measuring.load(), **measuring.about()}
        print(count, row)
        measuring.keep(measuring.RESULTS / "library.json", str(count), row)


if __name__ == "__main__":
    main()
