"""Other processors, imitated by lesser instruction sets: the same embeddings up to rounding."""

import numpy as np
import pytest
import torch

from .processes import PROCESSORS, elsewhere, here
from .test_reference import FILES


def cosines(one, other):
    one, other = one.astype(np.float64), other.astype(np.float64)
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor_gives_the_same_embeddings(processor):
    there = elsewhere()[processor]
    exact = {name: rows for name, rows in here().items() if name not in ("fast", "bfloat16")}
    for name, embeddings in exact.items():
        assert 1 - cosines(there[name], embeddings).min() < 1e-5, name


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_published_results_hold_on_another_processor(processor):
    there = elsewhere()[processor]
    for file in FILES:
        published = np.load(file)["localized_embeddings"]
        assert cosines(there[file.stem], published).min() >= 0.99999, file.stem


def test_the_imitation_takes_effect():
    assert elsewhere()["no vectors"]["capability"] in ("DEFAULT", "NO AVX")
    if torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        assert elsewhere()["AVX2"]["capability"] == "AVX2"
