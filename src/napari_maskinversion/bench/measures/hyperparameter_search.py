"""Search each method's best setting on validation images, never on test images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.settings import InversionConfig
from ..datasets.cases import Case, labels_of, sources_of
from ..model_under_test import ModelUnderTest
from .scene_methods import SCENE_METHODS, Setting, why_not
from .statistics import hits, share

Texts = tuple[NDArray[np.int64], NDArray[np.float32]]


def usual_settings(subject: ModelUnderTest, resolution: int | None = None) -> dict[str, Setting]:
    """Return the usual setting of every method that the model allows."""
    native = Setting(resolution=subject.model.native_resolution, context=1.0)
    settings = dict.fromkeys((key for key in SCENE_METHODS if key not in why_not(subject)), native)
    settings["maskinversion"] = Setting(resolution=subject.resolution(resolution))
    return settings


def choose_settings(
    subject: ModelUnderTest,
    cases: Sequence[Case],
    texts: Texts,
    inversion: InversionConfig,
    *,
    resolution: int | None = None,
    macro: bool = False,
    on_step: Callable[[float], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Choose each method's setting by top-1: first its own options, then the resolution.

    MaskInversion sees images of several regions whole.
    """
    true, sources = np.searchsorted(texts[0], labels_of(cases)), sources_of(cases)

    def score(name: str, setting: Setting) -> float:
        embeddings = SCENE_METHODS[name].embed(subject, cases, setting, inversion)
        right = hits(embeddings, texts[1], true)[:, 0]
        return share(right, sources, true if macro else None)["value"]

    chosen: dict[str, dict[str, Any]] = {}
    usual = usual_settings(subject, resolution)
    for done, (name, start) in enumerate(usual.items()):
        method = SCENE_METHODS[name]
        fixed = name == "maskinversion" and resolution is not None
        tried: dict[Setting, float] = {}
        whole = name == "maskinversion" and any(len(case.labels) > 1 for case in cases)
        if method.choices and not whole:
            for values in product(*method.choices.values()):
                setting = replace(start, **dict(zip(method.choices, values, strict=True)))
                tried[setting] = score(name, setting)
        best = max(tried, key=lambda s: tried[s]) if tried else start
        for side in [start.resolution] if fixed else subject.resolutions():
            setting = replace(best, resolution=side)
            if setting not in tried:
                tried[setting] = score(name, setting)
        best = max(tried, key=lambda s: tried[s])  # the first of equals is the more usual one
        chosen[name] = {
            "setting": method.describe(best),
            "top1": tried[best],
            "tried": len(tried),
        }
        on_step((done + 1) / len(usual))
    return chosen
