"""The same inversions in other processes: other instruction sets, other threads, a busy machine.

A process is started once and, where the system can fork, divides after its imports: these take
far longer than the inversions. Nothing may compute before the fork, since torch and its libraries
choose their instructions at the first use.
"""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.engine.compute.matmul import has_precision
from napari_maskinversion.engine.invert import map_builder

from .test_reference import FILES, load_config, load_tower
from .towers import SMOOTH_SIDE, image, inverter, masks, smooth_image, smooth_tower, tower

SIDE = 112
SIZES = {"image_size": SIDE, "width": 128, "heads": 4, "embed_dim": 64}


def picture():
    """Return an image without maps of nearly equal extremes: there the last bit would decide."""
    return image(SIDE, SIDE, seed=2)


def engine():
    """Return an inverter of a random tower that has seen the picture."""
    made = inverter(tower(**SIZES))
    made.set_image_tensor(picture())
    return made


def stack(count=3):
    """Return masks (count, SIDE, SIDE)."""
    return masks(count, SIDE, SIDE)


# Each library chooses its instructions by itself: torch's kernels, MKL, and oneDNN.
PROCESSORS: dict[str, dict[str, str]] = {
    "no vectors": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
    "AVX2 in torch and oneDNN alone": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}
# What `elsewhere` computes. ``load`` is a number of processes that keep the machine busy.
CASES: dict[str, dict[str, Any]] = {
    **{name: {"environment": names} for name, names in PROCESSORS.items()},
    "quiet": {},
    "busy": {"load": 2},
    "two threads": {"threads": 2},
    "two threads, busy": {"threads": 2, "load": 2},
}
# A process computes after it has imported torch and the engine. open_clip's package would import
# timm, torchvision and PyTorch's compiler, 13 s that no result depends on.
LIGHT = """
import importlib.util, sys, types
for name in ("open_clip", "torchvision", "torchvision.ops", "torchvision.ops.misc"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["torchvision.ops.misc"].FrozenBatchNorm2d = type("FrozenBatchNorm2d", (), {})
del sys.modules["open_clip"]
package = types.ModuleType("open_clip")
package.__path__ = importlib.util.find_spec("open_clip").submodule_search_locations
sys.modules["open_clip"] = package
from tests.engine import processes
processes.main(sys.argv[1].split("|"), *sys.argv[2:])
"""


@cache
def here():
    """Return raw embeddings: of the random tower, and of each reference file by its name."""
    more = {"fast": of_smooth_tower()}
    if has_precision("bfloat16", torch.device("cpu")):
        more["bfloat16"] = of_random_tower(precision="bfloat16")
    return {"random": of_random_tower(), **more, **of_references()}


def of_random_tower(**settings):
    return engine().invert(stack(), InversionConfig(**settings)).raw_embeddings


def of_smooth_tower():
    made = inverter(smooth_tower())
    made.set_image_tensor(smooth_image())
    # Products are so small here that nothing would be estimated.
    with mock.patch.object(map_builder, "estimates_pay", return_value=True):
        return made.invert(
            masks(3, SMOOTH_SIDE, SMOOTH_SIDE), InversionConfig(fast=True)
        ).raw_embeddings


def of_references():
    outcome = {}
    for file in FILES:
        case = np.load(file)
        made = inverter(load_tower(case))
        made.set_image_tensor(torch.tensor(case["image"]))
        outcome[file.stem] = made.invert(case["masks"], load_config(case)).raw_embeddings
    return outcome


@cache
def elsewhere():
    """Return for each of `CASES` what `here` returns, computed in a process of its own.

    ``capability`` among it is the instruction set that torch says it uses. With two threads only
    the random tower is inverted.
    """
    names = list(CASES)
    groups = [names] if hasattr(os, "fork") else [[name] for name in names]
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        for group in groups:
            threads = str(torch.get_num_threads())
            command = [sys.executable, "-c", LIGHT, "|".join(group), folder, threads]
            own = CASES[group[0]].get("environment", {}) if len(group) == 1 else {}
            done = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, **own}, cwd=root
            )
            assert done.returncode == 0, done.stderr
        return {name: dict(np.load(Path(folder, f"{names.index(name)}.npz"))) for name in names}


def compute(case, file, threads):
    os.environ.update(case.get("environment", {}))
    torch.set_num_threads(case.get("threads", threads))
    busy = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
        for _ in range(case.get("load", 0))
    ]
    try:
        outcome = {"random": of_random_tower()} if "threads" in case else here()
        capability = np.array(torch.backends.cpu.get_cpu_capability())
        np.savez(file, capability=capability, **outcome)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main(names, folder, threads):
    for name in names:
        arguments = (CASES[name], Path(folder, f"{list(CASES).index(name)}.npz"), int(threads))
        if len(names) == 1:
            compute(*arguments)
            continue
        child = os.fork()
        if not child:
            code = 1
            try:
                compute(*arguments)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, name
