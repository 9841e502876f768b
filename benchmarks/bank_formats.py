"""Caption banks in today's files and in a zarr store: ``python benchmarks/bank_formats.py``.

Random unit vectors stand for embeddings, so only storing is timed. Both formats write pieces of
1,024 captions that survive a crash, keep a checksum for each piece and check it on the first read.
Each step runs in a process of its own; each figure is the fastest of five, in
benchmarks/results/bank_formats.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np

COUNT, WIDTH, PIECE, STOP = 100_000, 512, 1024, 64
STEPS = ("build", "append", "open", "search")


def vectors(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    rows = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class TodaysFiles:
    """captions.txt, vectors.npy and a journal of finished pieces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        from napari_maskinversion.language.captions.caption_files import Captions
        from napari_maskinversion.language.captions.store import BankRecord, CaptionStore

        captions = Captions.of(f"caption {number}" for number in range(COUNT))
        record = BankRecord(
            model="m", fingerprint="f", embed_dim=WIDTH, count=COUNT, sha256=captions.sha256
        )
        self.store = CaptionStore.create(self.folder, record, captions)

    def open(self) -> None:
        from napari_maskinversion.language.captions.store import CaptionStore

        self.store = CaptionStore.open(self.folder)
        self.store.read_starts()

    def commit(self, first: int, rows: np.ndarray[Any, Any]) -> None:
        self.store.commit(first // PIECE, [rows])

    def search(self, regions: Any) -> None:
        from napari_maskinversion.language.captions.bank import CaptionBank

        CaptionBank(self.store).search(regions.numpy())


class ZarrStore:
    """One zarr group: vectors in chunks of 1,024 rows with a CRC-32C, captions, a row count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        import zarr

        self.group = zarr.create_group(self.folder, attributes={"done": 0})
        self.array = self.group.create_array(
            "vectors",
            shape=(COUNT, WIDTH),
            chunks=(PIECE, WIDTH),
            dtype="float16",
            compressors=[zarr.codecs.Crc32cCodec()],
        )
        text = "".join(f"caption {number}\n" for number in range(COUNT)).encode()
        self.group.create_array("captions", data=np.frombuffer(text, np.uint8), compressors=None)

    def open(self) -> None:
        import zarr

        self.group = zarr.open_group(self.folder, mode="r+")
        self.array = self.group["vectors"]
        text = self.group["captions"][:]  # type: ignore[index]
        self.starts = np.flatnonzero(text == 10)

    def commit(self, first: int, rows: np.ndarray[Any, Any]) -> None:
        self.array[first : first + len(rows)] = rows.astype(np.float16)
        chunk = self.folder / "vectors" / "c" / str(first // PIECE) / "0"
        with chunk.open("rb") as file:  # zarr's local store never flushes
            os.fsync(file.fileno())
        self.group.attrs["done"] = first + len(rows)

    def search(self, regions: Any) -> None:
        import torch

        best: list[Any] = []
        step = 15 * PIECE  # as `CaptionBank.search`: 32 MB of vectors in float32
        for first in range(0, COUNT, step):
            rows = torch.from_numpy(self.array[first : first + step])
            best.append((regions @ rows.float().T).topk(5, dim=1).values)
        torch.cat(best, 1).topk(5, dim=1)


def step(kind: str, what: str, folder: Path) -> dict[str, float]:
    """Time one step in this process."""
    bank = {"files": TodaysFiles, "zarr": ZarrStore}[kind](folder)
    start = time.perf_counter()
    if what == "build":
        rows = vectors(COUNT)
        start = time.perf_counter()
        bank.create()
        for first in range(0, COUNT, PIECE):
            bank.commit(first, rows[first : first + PIECE])
    elif what == "append":
        # The last piece in batches of 64, as after Cancel.
        bank.open()
        last = COUNT // PIECE
        rows = vectors(COUNT - last * PIECE)
        if isinstance(bank, TodaysFiles):
            bank.store.forget(last)
        start = time.perf_counter()
        for first in range(0, len(rows), STOP):
            bank.commit(last * PIECE + first, rows[first : first + STOP])
    elif what == "open":
        bank.open()
    else:
        import torch

        regions = torch.from_numpy(vectors(16, seed=1))
        bank.open()
        times = [measuring.timed(lambda: bank.search(regions)) for _ in range(4)]
        return {"first_search": times[0], "search": statistics.median(times[1:])}
    return {what: time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "bank_formats.json")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part:
        kind, what, folder = chosen.part
        print(json.dumps(step(kind, what, Path(folder))))
        return
    seconds: dict[tuple[str, str], list[float]] = {}
    sizes: dict[str, Any] = {}
    for _ in range(chosen.repeat):
        for kind in ("files", "zarr"):  # in turn, so that other load meets both
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "bank"
                for what in STEPS:
                    command = [sys.executable, __file__, "--part", kind, what, str(folder)]
                    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                    for name, value in json.loads(output).items():
                        seconds.setdefault((kind, name), []).append(value)
                files = [file for file in folder.rglob("*") if file.is_file()]
                size = sum(file.stat().st_size for file in files)
                sizes[kind] = {"disk_mb": round(size / 1e6, 1), "files": len(files)}
    for kind, row in sizes.items():
        for (other, name), values in seconds.items():
            if other == kind:
                row[f"{name}_s"] = round(min(values), 4)
        row["versions"] = measuring.versions("zarr", "numpy", "torch")
        measuring.keep(chosen.out, kind, row)
        print(kind, json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
