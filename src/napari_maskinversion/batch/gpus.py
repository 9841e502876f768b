"""GPUs that the workers of one machine share, one each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def gpus_for(device: str) -> tuple[str, ...]:
    """Return the GPUs among which workers choose, as `VISIBLE` names them."""
    if device not in ("auto", "cuda"):
        return ()
    import torch

    count = torch.cuda.device_count()
    named = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return tuple(named[:count] if named else map(str, range(count)))


def take_gpu(number: int, gpus: Sequence[str]) -> None:
    """Let this process see one GPU, in turns by its number; CUDA must not have been used yet."""
    if gpus:
        os.environ[VISIBLE] = gpus[number % len(gpus)]
