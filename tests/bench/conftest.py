from __future__ import annotations

import pytest

from napari_maskinversion.bench.subject import Subject, subject_of
from napari_maskinversion.core.backbone import load_model


@pytest.fixture(scope="session")
def subject() -> Subject:
    return subject_of(load_model("demo", device="cpu"))
