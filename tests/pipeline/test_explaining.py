"""Maps of any embedding, and what a region's optimisation did."""

from dataclasses import replace
from functools import partial
from weakref import WeakSet

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.base.errors import InputError, NotEnoughMemoryError
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.engine.compute import cuda_graphs
from napari_maskinversion.engine.explain.interpolation import heatmap
from napari_maskinversion.engine.models.loading import copy_to_cpu
from napari_maskinversion.images.plane_source import ArrayPlane, Level
from napari_maskinversion.images.windows import WindowConfig, plan_windows
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.language.ranking.uncertainty import UncertaintyConfig
from napari_maskinversion.pipeline import explained_windows
from napari_maskinversion.pipeline.explaining import (
    Explainer,
    LabelMaps,
    Seen,
    in_words,
    window_of,
)
from napari_maskinversion.results.region_result import WindowRecord
from tests import scenes
from tests.engine.towers import image, inverter, tower
from tests.listeners import collect
from tests.scenes import picture, run

demo_model = partial(scenes.demo_model, "cpu")  # which says where it is, or pretends


@pytest.mark.parametrize(
    ("embeddings", "says"),
    [
        (np.ones((2, 7)), "are \\(N, 24\\)"),
        (np.zeros((1, 24)), "not 0"),
        ([[np.nan] * 24], "finite"),
    ],
)
def test_embeddings_that_cannot_be_explained_are_refused(embeddings, says):
    engine = inverter(tower())
    with pytest.raises(InputError, match="No image"):
        engine.explain(embeddings)
    engine.set_image_tensor(image())
    with pytest.raises(InputError, match=says):
        engine.explain(embeddings)


WORDS = Vocabulary.parse("apple | red fruit\ncar\nhouse\nfish")


@pytest.fixture(scope="module")
def answered():
    """Five regions of a picture larger than what the model sees, each in a window."""
    image = np.tile(picture(100, 120), (2, 2, 1))
    labels = np.zeros((200, 240), np.uint8)
    for number in range(4):
        y, x = 20 + 90 * (number // 2), 30 + 110 * (number % 2)
        labels[y : y + 24, x : x + 30] = number + 1
    regions = Regions.from_labels(labels)
    config = InversionConfig(steps=4, alpha=1.0)
    work = run(
        demo_model(), image, regions, WORDS, config, window=WindowConfig(mode="fixed", side=70)
    )
    return ArrayPlane(image), regions, work


def seen(answered, row=2, **changed):
    source, regions, results = answered
    arguments = {"source": source, "result": results.regions[row], "info": results.info}
    return Seen(**arguments | {"region": regions[row]} | changed)


def test_the_course_ends_where_the_run_ended_and_begins_at_the_image(answered):
    explainer = Explainer(demo_model())
    asked = seen(answered)
    course = explainer.course(asked)
    assert course.steps == 4
    assert course.same_image
    np.testing.assert_allclose(course.losses, asked.result.losses, atol=1e-4)
    np.testing.assert_allclose(course.grid_maps[4], asked.result.grid_map, atol=1e-7)
    # Before the first update all regions of a window look alike: the image's own map.
    inverter = MaskInverter(demo_model())
    y0, x0, y1, x1 = (int(value) for value in asked.result.window.box)
    inverter.set_image(answered[0].read(0, (y0, x0, y1, x1)))
    own = inverter.explain(inverter.image_embedding[None])[0]
    np.testing.assert_allclose(course.grid_maps[0], own, rtol=1e-4)
    assert not np.allclose(course.grid_maps[1], course.grid_maps[3], rtol=1e-2)


def test_the_course_of_a_run_in_a_precision_that_the_device_lacks_is_computed_in_float32(answered):
    settings = answered[2].info.settings.changed({"inversion.precision": "float16"})
    asked = seen(answered, info=replace(answered[2].info, settings=settings))
    course = Explainer(demo_model()).course(asked)
    np.testing.assert_allclose(course.losses, asked.result.losses, atol=1e-4)


def test_label_maps_are_those_of_the_text_in_the_regions_window(answered):
    explainer = Explainer(demo_model())
    asked = seen(answered, region=None)
    maps = explainer.labels(asked, ["fish", "apple", "fish"])
    y0, x0, y1, x1 = (int(value) for value in asked.result.window.box)
    inverter = MaskInverter(demo_model())
    inverter.set_image(answered[0].read(0, (y0, x0, y1, x1)))
    words = ["fish", maps.words[1]]
    text = demo_model().encode_text([f"a photo of a {word}." for word in words])
    expected = inverter.explain(text)
    np.testing.assert_allclose(maps.maps[:2], expected, rtol=1e-3, atol=1e-8)
    np.testing.assert_array_equal(maps.maps[0], maps.maps[2])
    # The word that comes nearest to the region speaks for its label.
    names = ["apple", "red fruit"]
    near = demo_model().encode_text([f"a photo of a {n}." for n in names]) @ (
        asked.result.embedding
    )
    assert maps.words == ("fish", names[int(near.argmax())], "fish")
    assert maps.same_image


def test_the_window_is_encoded_once_for_several_questions(answered, monkeypatch):
    explainer = Explainer(demo_model())
    explainer.labels(seen(answered), ["car"])
    monkeypatch.setattr(MaskInverter, "set_image", None)  # were it encoded again: an error
    explainer.course(seen(answered))
    explainer.labels(seen(answered), ["house"])


def test_two_windows_at_most_are_encoded_also_while_another_one_is_being_encoded(
    answered, monkeypatch
):
    explainer, living, encoded = Explainer(demo_model()), WeakSet(), []
    encode = MaskInverter.set_image

    def count(self, *given, **options):
        living.add(self)
        encoded.append(len(living))
        return encode(self, *given, **options)

    monkeypatch.setattr(MaskInverter, "set_image", count)
    for row in (0, 1, 0, 2, 0, 1):  # 2 takes the place of 1, and 1 that of 2
        explainer.labels(seen(answered, row, region=None), ["car"])
    assert encoded == [1, 2, 2, 2]


def test_a_label_is_looked_for_on_the_whole_image_where_that_is_asked_for(answered):
    explainer = Explainer(demo_model())
    asked = seen(answered, region=None)
    maps = explainer.labels(asked, ["fish", "car"], whole=True)
    inverter = MaskInverter(demo_model())
    inverter.set_image(answered[0].read(0, (0, 0, 200, 240)))
    text = demo_model().encode_text(["a photo of a fish.", "a photo of a car."])
    np.testing.assert_allclose(maps.maps, inverter.explain(text), rtol=1e-3, atol=1e-8)
    assert maps.box == (0, 0, 200, 240)
    assert maps.same_image
    assert explainer.labels(asked, ["fish"]).box == asked.result.window.box
    other = ArrayPlane(np.ascontiguousarray(answered[0].read(0, (0, 0, 200, 240))[::-1]))
    changed = seen(answered, source=other, region=None)
    assert not explainer.labels(changed, ["fish"], whole=True).same_image


class OnGpu:
    """The demo model as if it were on a GPU; what runs on its copy runs on the CPU."""

    def __init__(self, monkeypatch):
        self.model = copy_to_cpu(demo_model())
        place = {"device": torch.device("cuda", 0)}
        self.model.__class__ = type("Pretended", (type(self.model),), place)
        monkeypatch.setattr(f"{MaskInverter.__module__}.total_memory", lambda device: 8 << 30)
        self.copies = []
        monkeypatch.setattr(explained_windows, "copy_to_cpu", self._copy)

    def _copy(self, model):
        self.copies.append(demo_model())
        return self.copies[-1]


def looked_at_by(monkeypatch, fails=lambda inverter: False):
    """The models that encode, in order; fails where it is said."""
    used, original = [], MaskInverter.set_image

    def set_image(self, *args, **options):
        used.append(self.model)
        if fails(self):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, *args, **options)

    monkeypatch.setattr(MaskInverter, "set_image", set_image)
    return used


def test_a_region_that_ended_on_the_cpu_is_looked_at_there(answered, monkeypatch):
    gpu, used = OnGpu(monkeypatch), looked_at_by(monkeypatch)
    explainer = Explainer(gpu.model)
    asked = seen(answered, row=2)
    assert asked.result.window.device == "cpu"
    assert explainer.course(asked).same_image
    explainer.course(seen(answered, row=1))
    assert len(gpu.copies) == 1  # made once
    assert used == gpu.copies * 2


def test_where_memory_runs_out_the_cpu_goes_on_and_what_does_not_fit_there_is_told(
    answered, monkeypatch
):
    gpu = OnGpu(monkeypatch)
    used = looked_at_by(monkeypatch, lambda inverter: inverter.model is gpu.model)
    asked = seen(answered)
    on_gpu = replace(asked.result, window=replace(asked.result.window, device="cuda:0"))
    asked_on_gpu = replace(asked, result=on_gpu)
    visual = gpu.model.clip.visual
    cuda_graphs._kept[visual] = {"step": ("of another inversion", "graph")}
    said, course = collect(lambda: Explainer(gpu.model).course(asked_on_gpu))
    assert visual not in cuda_graphs._kept
    assert "Not enough memory: one map at a time" in said
    assert "Not enough memory on cuda:0: going on on the CPU" in said
    np.testing.assert_allclose(course.grid_maps[4], asked.result.grid_map, atol=1e-7)
    assert used == [gpu.model, gpu.model, *gpu.copies]
    looked_at_by(monkeypatch, lambda inverter: True)
    with pytest.raises(NotEnoughMemoryError, match="not even for one map at a time on the CPU"):
        Explainer(gpu.model).labels(asked, ["car"])


def test_maps_that_do_not_fit_together_are_made_one_by_one(answered, monkeypatch):
    made, original = [], MaskInverter.explain

    def explain(self, embeddings, **options):
        made.append(len(embeddings))
        if len(embeddings) > 1:
            raise MemoryError
        return original(self, embeddings, **options)

    monkeypatch.setattr(MaskInverter, "explain", explain)
    course = Explainer(demo_model()).course(seen(answered))
    assert course.grid_maps.shape[0] == 5
    assert made == [1, 5, 1, 1, 1, 1, 1, 1]


def test_another_image_another_region_and_another_model_are_noticed(answered):
    explainer = Explainer(demo_model())
    other = ArrayPlane(np.ascontiguousarray(answered[0].read(0, (0, 0, 200, 240))[::-1]))
    assert not explainer.labels(seen(answered, source=other), ["car"]).same_image
    assert not explainer.course(seen(answered, source=other)).same_image
    with pytest.raises(InputError, match="Region 3 is not as it was"):
        explainer.course(seen(answered, region=answered[1][1]))
    with pytest.raises(InputError, match="Region 3 is not as it was"):
        explainer.course(seen(answered, region=None))
    info = replace(answered[2].info, fingerprint="0")
    with pytest.raises(InputError, match="not the one of this run"):
        explainer.course(seen(answered, info=info))


def test_the_window_of_a_record_is_the_one_that_was_planned():
    mask = np.ones((90, 130), bool)
    regions = Regions((3000, 4000), [Region(1, (700, 2000, 790, 2130), mask)])
    levels = [Level((3000, 4000)), Level((1500, 2000), (2.0, 2.0)), Level((750, 1000), (4.0, 4.0))]
    for config in (
        WindowConfig(),
        WindowConfig(mode="whole"),
        WindowConfig(mode="fixed", side=900),
    ):
        (planned,) = plan_windows(regions, levels, resolution=128, patch=8, config=config)
        record = WindowRecord(
            box=planned.box,
            level=planned.level,
            pixels=planned.pixels,
            input_size=(128, 128),
            grid=(16, 16),
            whole=planned.whole,
            resolution=planned.resolution,
        )
        assert window_of(record, levels) == planned


def test_a_difference_compares_heatmaps_as_they_are_shown():
    weak = np.array([[0.0, 1.0], [2.0, 4.0]], np.float32) * 1e-4
    strong = np.array([[4.0, 1.0], [2.0, 0.0]], np.float32)
    flat = np.full((2, 2), 7, np.float32)

    def difference(*maps):
        box = (0.0, 0.0, 8.0, 8.0)
        both = LabelMaps(
            maps=np.stack(maps), words=("a", "b"), same_image=True, input_size=(8, 8), box=box
        )
        return both.difference()

    apart = difference(weak, strong)
    corners = apart[[0, 0, -1, -1], [0, -1, 0, -1]]
    np.testing.assert_allclose(corners, [-1, 0, 0, 1], atol=1e-6)
    assert (difference(weak, weak) == 0).all()
    assert (difference(weak, flat) == heatmap(weak, (8, 8))).all()


def test_numbers_are_said_in_words(answered):
    ranking = Ranking(
        ("dog", "cat"), np.array([0.3, 0.29], np.float32), np.array([0.52, 0.48], np.float32)
    )
    limits = UncertaintyConfig(overlap=0.3)
    shaky = replace(answered[2].regions[0], ranking=ranking, iou=0.21, area=4.0, limits=limits)
    said = in_words(shaky)
    less = "less than usual where this model is right"
    assert said[0] == f"Heatmap and region overlap by 21 % (IoU), {less}."
    assert said[1] == "dog is 1.1 times as probable as cat."
    assert said[2] == "Among all 2 words the choice is undecided."
    assert said[3].startswith("Doubtful, does not fit: ")
    assert "low overlap 0.21" in said[3]
    assert "low margin 0.010" in said[3]
    sure = Ranking(
        ("dog", "cat"), np.array([0.5, 0.1], np.float32), np.array([0.99, 0.01], np.float32)
    )
    known = replace(shaky.window, unknown=False)
    area = answered[2].regions[0].area
    fine = in_words(replace(shaky, ranking=sure, iou=0.7, area=area, window=known))
    assert fine[0].endswith("overlap by 70 % (IoU), as often where this model is right.")
    assert fine[1] == "dog is more than 10 times as probable as cat."
    equal = replace(ranking, probabilities=np.array([0.5, 0.49], np.float32))
    assert "dog and cat are equally probable." in in_words(replace(shaky, ranking=equal))
    assert fine[-1] == "No reason to doubt it."
