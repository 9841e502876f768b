"""An estimate before the start: how many regions, planes and windows, how long, and where."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.engine.compute import devices
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.engine.models.registry import list_models
from napari_maskinversion.images.plane_source import ArrayPlane, Level
from napari_maskinversion.images.windows import WindowConfig
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline import estimate as module
from napari_maskinversion.pipeline.estimate import Estimate, estimate, likely_device, patch_of
from napari_maskinversion.pipeline.run import PlaneTask, run_planes
from napari_maskinversion.pipeline.timings import forget, remember
from napari_maskinversion.pipeline.window_runner import WindowRunner
from napari_maskinversion.results.settings import RunSettings
from tests.scenes import demo_model, picture, settings_of


class Unreadable:
    """A plane that nobody may read."""

    shape = (5000, 6000)
    levels = (Level((5000, 6000)),)

    def read(self, level, box):
        raise AssertionError("an estimate reads no pixels")

    check = read


@pytest.fixture(autouse=True)
def nothing_known():
    forget()
    yield
    forget()


def far_apart(count=6):
    mask = np.ones((30, 30), bool)
    corners = [(700 * i, 900 * i) for i in range(count)]
    return Regions(
        Unreadable.shape,
        [Region(i + 1, (y, x, y + 30, x + 30), mask) for i, (y, x) in enumerate(corners)],
    )


def ask(tasks, steps=10, mode="auto", **settings):
    return estimate(
        tasks,
        model="m",
        device="cpu",
        resolution=96,
        patch=8,
        config=InversionConfig(steps=steps, **settings),
        window=WindowConfig(mode=mode),
    )


def plane(regions=None, z=0):
    regions = far_apart() if regions is None else regions
    return PlaneTask(source=Unreadable(), regions=regions, position=(("z", z),))


def test_a_machine_that_never_ran_the_model_gives_counts_alone():
    estimate = ask([plane()])
    assert estimate == Estimate(regions=6, planes=1, windows=6, seconds=None)
    assert estimate.text == "6 regions in 6 parts of the image"


def test_measured_speeds_give_seconds_for_windows_and_for_every_step_of_a_region():
    remember("m", "cpu", resolution=96, steps=4, encoding=2.0, region=0.5, last=True)
    estimate = ask([plane()], steps=9)
    assert estimate.seconds == pytest.approx(6 * 2.0 + 6 * 10 * 0.1)
    assert ask([plane()], steps=19).seconds == pytest.approx(6 * 2.0 + 6 * 20 * 0.1)
    whole = ask([plane()], steps=9, mode="whole")
    assert whole.windows == 1
    assert whole.seconds == pytest.approx(2.0 + 6.0)
    assert estimate.text == "6 regions in 6 parts of the image, about 20 s"


def test_one_map_says_nothing_of_the_time_of_another():
    remember("m", "cpu", resolution=96, steps=4, encoding=2.0, region=0.5, last=True)
    remember(
        "m", "cpu", resolution=96, steps=4, encoding=2.0, region=5, last=True, explainer="chefer"
    )
    assert ask([plane()]).seconds == pytest.approx(6 * 2.0 + 6 * 11 * 0.1)
    assert ask([plane()], explainer="chefer").seconds == pytest.approx(6 * 2.0 + 6 * 11)
    assert ask([plane()], explainer="gradcam").seconds is None


def test_planes_are_counted_where_they_have_regions():
    estimate = ask([plane(z=0), plane(far_apart(0), z=1), plane(z=2)])
    assert (estimate.regions, estimate.planes, estimate.windows) == (12, 2, 12)
    assert estimate.text == "12 regions on 2 planes in 12 parts of the image"


@pytest.mark.parametrize(
    ("regions", "windows", "seconds", "text"),
    [
        (1, 1, None, "1 region"),
        (1, 1, 0.2, "1 region, about a second"),
        (212, 40, 7.2, "212 regions in 40 parts of the image, about 7 s"),
        (212, 40, 78, "212 regions in 40 parts of the image, about 1 min 20 s"),
        (212, 40, 58, "212 regions in 40 parts of the image, about 1 min"),
        (10_000, 2000, 1000, "10,000 regions in 2,000 parts of the image, about 17 min"),
        (10_000, 2000, 7000, "10,000 regions in 2,000 parts of the image, about 1 h 55 min"),
        (10_000, 2000, 7200, "10,000 regions in 2,000 parts of the image, about 2 h"),
    ],
)
def test_text_is_what_a_person_would_say(regions, windows, seconds, text):
    assert Estimate(regions=regions, planes=1, windows=windows, seconds=seconds).text == text


def test_the_windows_are_those_that_the_run_then_has():
    image = np.tile(picture(200, 200), (5, 5, 1))
    mask = np.ones((30, 30), bool)
    boxes = [(50, 50, 80, 80), (50, 85, 80, 115), (800, 800, 830, 830)]
    regions = Regions((1000, 1000), [Region(i + 1, box, mask) for i, box in enumerate(boxes)])
    model, config, window = demo_model(), InversionConfig(steps=1), WindowConfig()
    tasks = [PlaneTask(source=ArrayPlane(image), regions=regions)]
    asked = {
        "model": model.name,
        "device": str(model.device),
        "resolution": model.working_resolution,
        "patch": model.patch_size,
        "config": config,
        "window": window,
    }
    before = estimate(tasks, **asked)
    assert before.seconds is None
    results = run_planes(model, tasks, None, settings_of(config, window=window))
    assert len(results.windows) == before.windows
    # And the next estimate knows how long that took.
    assert estimate(tasks, **asked).seconds > 0


def test_an_estimate_does_not_load_torch():
    code = (
        "import sys; from napari_maskinversion.pipeline.estimate import *;"
        "likely_device('auto', 'm', 1); place_text('cpu'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_auto_is_what_earlier_runs_used_until_torch_can_be_asked(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(module, "likely_gpu", lambda: "")
    assert likely_device("auto", "m", 448) == "cpu"
    remember("m", "cuda:0", resolution=448, steps=1, encoding=1, region=1, last=False)
    assert likely_device("auto", "m", 448) == "cuda:0"
    assert likely_device("auto", "other", 448) == "cpu"
    assert likely_device("cpu", "m", 448) == "cpu"
    assert likely_device("cuda", "m", 448) == "cuda:0"
    monkeypatch.setattr(module, "likely_gpu", lambda: "mps")
    assert likely_device("auto", "other", 448) == "mps"


def test_a_name_says_the_side_of_a_patch_for_each_tower_of_open_clip():
    others = re.compile(r"RN|convnext|swin|vit_relpos|MobileCLIP2?-S|naflex")  # without patches
    folder = Path(find_spec("open_clip").origin).parent / "model_configs"
    patches = {}
    for file in folder.glob("*.json"):
        vision = json.loads(file.read_text())["vision_cfg"]
        said = re.search(r"patch(\d+)", vision.get("timm_model_name") or "")
        patches[file.stem] = int(said[1]) if said else vision.get("patch_size", 16)
    patches = {name: side for name, side in patches.items() if not others.match(name)}
    assert len(patches) > 90
    assert {name: patch_of(name) for name in patches} == patches
    assert (patch_of("demo"), patch_of("what-is-this")) == (8, 16)


def test_a_name_says_the_side_of_a_patch_for_each_model_of_the_table():
    for spec in list_models():
        if said := re.search(r"patch(\d+)", spec.source):
            assert patch_of(spec.architecture) == int(said[1]), spec.name


class Clock:
    """Made-up seconds of a run's parts; the first window takes four times as long."""

    def __init__(self, monkeypatch, encoding, region, words):
        self.now = 0.0
        monkeypatch.setattr("napari_maskinversion.pipeline.run.perf_counter", lambda: self.now)
        real = WindowRunner.encode, WindowRunner.invert, WindowRunner.labels

        def encode(runner):
            begun = runner.done
            record = real[0](runner)
            self.now += encoding * (runner._end - runner._first + (0 if begun else 3))
            return record

        def invert(runner):
            inverted = real[1](runner)
            self.now += region * sum(len(one.members) for one in inverted)
            return inverted

        def labels(runner, vocabulary):
            self.now += words
            return real[2](runner, vocabulary)

        for function in (encode, invert, labels):
            monkeypatch.setattr(WindowRunner, function.__name__, function)


@pytest.mark.parametrize("method", ["maskinversion", "crop"])
@pytest.mark.parametrize("mode", ["auto", "whole"])
def test_after_the_first_run_the_estimate_is_within_one_and_a_half_times(monkeypatch, mode, method):
    image = np.tile(picture(200, 200), (5, 5, 1))
    mask = np.ones((20, 20), bool)
    boxes = [(y, x, y + 20, x + 20) for y in range(50, 900, 150) for x in range(50, 900, 300)]
    model, window = demo_model(), WindowConfig(mode=mode)
    regions = Regions((1000, 1000), [Region(i + 1, box, mask) for i, box in enumerate(boxes)])
    task = PlaneTask(source=ArrayPlane(image), regions=regions)
    settings = RunSettings.of(InversionConfig(steps=1), window=window, method=method)
    chosen = Method.of(method)
    side = model.working_resolution if chosen.whole_image else model.native_resolution

    def asked():
        return estimate(
            [task],
            model=model.name,
            device=str(model.device),
            resolution=side,
            patch=model.patch_size,
            config=settings.inversion,
            window=window,
            method=chosen,
        )

    clock = Clock(monkeypatch, encoding=2.0, region=1.0, words=60.0)
    assert asked().seconds is None
    words = Vocabulary(("cat", "dog"))
    run_planes(model, [task], words, settings)
    first = asked().seconds
    begun = clock.now
    run_planes(model, [task], words, settings)
    took = clock.now - begun - 60  # sentences are embedded once
    assert took / 1.5 < first < took * 1.5
    assert asked().seconds == pytest.approx(took, rel=0.5)


@pytest.mark.parametrize("triton", [True, False])
def test_the_line_about_a_gpu_says_what_triton_brings(monkeypatch, triton):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(devices, "find_spec", lambda _: triton or None)
    line = module.place_text("cuda:1")
    assert line.startswith("On NVIDIA H100 (cuda:1), maps ")
    assert ("fused by Triton" in line, "needs Triton" in line) == (triton, not triton)
    assert "maps" not in module.place_text("cpu")
