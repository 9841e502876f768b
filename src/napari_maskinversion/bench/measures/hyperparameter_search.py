"""Each way's best setting, found on validation images; the test images are never looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.settings import InversionConfig
from ..datasets.cases import Case
from ..model_under_test import ModelUnderTest
from .scene_methods import WAYS, Setting, why_not
from .statistics import hits, share

Texts = tuple[NDArray[np.int64], NDArray[np.float32]]


def usual_settings(subject: ModelUnderTest, resolution: int | None = None) -> dict[str, Setting]:
    """Return every way that the model can do, as it is commonly used: nothing chosen."""
    native = Setting(resolution=subject.model.native_resolution)
    settings = dict.fromkeys((key for key in WAYS if key not in why_not(subject)), native)
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
    """Choose each way's setting by top-1: its own choices at the native resolution, then that.

    Parameters
    ----------
    subject : ModelUnderTest
    cases : sequence of Case
        Validation images.
    texts : (labels, embeddings)
        Label of each text, and unit embeddings (labels, e).
    inversion : InversionConfig
    resolution : int, optional
        MaskInversion's, where it is given and not to be chosen.
    macro : bool
        Average over classes.
    on_step : callable
        Told the share of the work that is done.

    Returns
    -------
    dict
        Per way: ``setting`` (see `ways.SceneMethod.describe`), ``top1`` on these cases, ``tried``.
    """
    labels = np.concatenate([c.labels for c in cases])
    true = np.searchsorted(texts[0], labels)
    sources = np.repeat([c.source for c in cases], [len(c.labels) for c in cases]).tolist()

    def score(name: str, setting: Setting) -> float:
        embeddings = WAYS[name].embed(subject, cases, setting, inversion)
        right = hits(embeddings, texts[1], true)[:, 0]
        return share(right, sources, true if macro else None)["value"]

    chosen: dict[str, dict[str, Any]] = {}
    usual = usual_settings(subject, resolution)
    for done, (name, start) in enumerate(usual.items()):
        way = WAYS[name]
        fixed = name == "maskinversion" and resolution is not None
        tried: dict[Setting, float] = {}
        if way.choices:
            for values in product(*way.choices.values()):
                setting = replace(start, **dict(zip(way.choices, values, strict=True)))
                tried[setting] = score(name, setting)
        best = max(tried, key=lambda s: tried[s]) if tried else start
        for side in [start.resolution] if fixed else subject.resolutions():
            setting = replace(best, resolution=side)
            if setting not in tried:
                tried[setting] = score(name, setting)
        best = max(tried, key=lambda s: tried[s])  # the first of equals: the commoner one
        chosen[name] = {
            "setting": way.describe(best),
            "top1": tried[best],
            "tried": len(tried),
        }
        on_step((done + 1) / len(usual))
    return chosen
