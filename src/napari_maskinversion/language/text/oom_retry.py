"""Embeds labels, with fewer at a time where memory runs short."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...engine.compute.devices import release_memory
from ...engine.compute.memory import is_out_of_memory
from ...engine.models.loading import copy_to_cpu
from ..labels.vocabulary import Vocabulary
from .embeddings import SENTENCES, embed_vocabulary_steps
from .oom_batches import TextOomFallback, nothing_left

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone


def embed_as_fits(
    model: Backbone, vocabulary: Vocabulary
) -> Generator[tuple[int, int, str], None, npt.NDArray[np.float32]]:
    """Do what `embed_vocabulary_steps` does, as many sentences at once as fit.

    Where not even one does, a copy of the model on the CPU embeds the rest.

    Yields
    ------
    (words done, words, what to tell): the last one is empty as long as everything fits.

    Raises
    ------
    NotEnoughMemoryError
        If nothing helps.
    """
    ladder, said = TextOomFallback(SENTENCES, str(model.device)), ""
    while True:
        try:
            # Stopped or broken off between two batches, the finished ones are still kept.
            with closing(
                embed_vocabulary_steps(model, vocabulary, sentences=ladder.sentences)
            ) as work:
                while True:
                    try:
                        done, total = next(work)
                    except StopIteration as stop:
                        found: npt.NDArray[np.float32] = stop.value
                        return found
                    yield done, total, said
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            before, next_try = ladder.device, ladder.down()
            if next_try is None:
                raise nothing_left("labels", before) from error
            said = next_try
        release_memory(model.device)
        if ladder.device != before:
            model = copy_to_cpu(model)
        yield 0, len(vocabulary.words), said
