"""Generated captions in the panel. Knows neither Qt nor napari."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ...base import progress_words as words
from ...pipeline.captions.generating import CaptionRequest, ModelOfRun, generate_captions_steps
from ...results.results import Results
from ..workers.driver import often, stop_requested
from ..workers.preload import preload_torch
from ..workers.updates import Update


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerateRequest:
    """Results whose regions get sentences, and the decoder that writes them."""

    results: Results
    captions: CaptionRequest
    device: str


def generate(request: GenerateRequest) -> Generator[Any, None, tuple[Results, Results]]:
    """Write a sentence about each region; a task for a `Worker`.

    Returns the results before and after.
    """
    from ...engine.compute.devices import choose_device

    results = request.results
    yield Update(text=words.READING_DECODER)
    preload_torch()
    decoder = request.captions.load(
        ModelOfRun.of(results.info), choose_device(request.device), cancelled=stop_requested
    )
    yield Update(text=words.counted("Captions", 0, len(results)))

    def progress(step: tuple[int, int]) -> Update:
        done, total = step
        return Update(text=words.counted("Captions", done, total), fraction=done / total)

    after = yield from often(generate_captions_steps(results, decoder), progress)
    return results, after
