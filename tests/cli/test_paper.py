"""``--paper``: the paper's setting in one word, on ``run``, ``find`` and ``bench``."""

import json

import pytest

from napari_maskinversion.bench.datasets.label_image_dataset import ImageFolder
from napari_maskinversion.bench.measures import measuring
from napari_maskinversion.bench.measures.entries import methods
from napari_maskinversion.bench.measures.measuring import Measuring, MeasuringPlan, open_records
from napari_maskinversion.cli import run, run_options
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.results.settings import RunSettings
from tests.bench.sets import own_images
from tests.scenes import demo_model

PAPER_INVERSION = {
    "steps": 10,
    "learning_rate": 0.1,
    "alpha": 0.0,
    "weight_decay": 0.0,
    "layers": 1,
    "explainer": "legrad",
    "fast": False,
}


class Reached(BaseException):
    """The command was about to compute."""


@pytest.fixture
def settings_of(call, files, monkeypatch):
    """Return the settings and the vocabulary with which ``run`` or ``find`` would compute."""

    def called(command, *more):
        seen = []

        def stop(model, job, words=None, bank=None):
            seen.append((job.settings, words))
            raise Reached

        monkeypatch.setattr({"run": run, "find": run_options}[command], "invert", stop)
        image = (command, files / "image.png", files / "masks.png")
        needed = ("--labels", "cat,dog", "--out", files / "out") if command == "run" else ("a cat",)
        with pytest.raises(Reached):
            call(*image, *needed, *more)
        return seen[0]

    return called


@pytest.mark.parametrize(("command", "alpha"), [("run", 0.0), ("find", 5.0)])
def test_run_and_find_compute_as_the_paper(settings_of, capsys, command, alpha):
    settings, _ = settings_of(command, "--paper")
    expected = PAPER_INVERSION | {"alpha": alpha}
    assert dict(settings.inversion).items() >= expected.items()
    assert (settings.resolution, settings.keep_aspect, settings.window.text) == (
        448,
        False,
        "whole",
    )
    task = "classes" if command == "run" else "expressions"
    assert settings == RunSettings.paper(task)


def test_without_it_nothing_changes(settings_of):
    assert settings_of("run")[0] == RunSettings()


def test_the_prompt_is_the_papers_whatever_the_list_says(settings_of):
    aerial = ("--labels", "preset:dota")
    own = settings_of("run", *aerial)[1]
    paper = settings_of("run", *aerial, "--paper")[1]
    chosen = settings_of("run", *aerial, "--paper", "--template", "a map of {}")[1]
    assert own.templates != ("a photo of a {}.",)
    assert paper.templates == ("a photo of a {}.",)
    assert chosen.templates == ("a map of {}",)


def test_what_is_given_as_well_counts_and_is_named(settings_of, monkeypatch):
    said = []
    monkeypatch.setattr("napari_maskinversion.cli.options.say", said.append)
    given = ("--alpha", "2", "--paper", "--fast", "--resolution", "448", "--square")
    settings, _ = settings_of("run", *given)
    assert said == ["The paper's setting, but with your --alpha 2.0, --fast."]
    assert (settings.inversion.alpha, settings.inversion.fast) == (2.0, True)
    assert (settings.resolution, settings.keep_aspect) == (448, False)


def test_a_default_given_by_hand_counts_too(settings_of):
    assert settings_of("run", "--paper", "--window", "auto")[0].window.mode == "auto"


def test_the_record_says_what_differs_from_the_paper(fine, files):
    def record(*more):
        out = files / f"out{len(more)}"
        arguments = ("--labels", "cat", "--only", "1", "--format", "json", "--out", out)
        fine("run", files / "image.png", files / "masks.png", *arguments, *more)
        return json.loads((out / "result.json").read_text("utf-8"))["differs_from_paper"]

    assert record("--paper", "--resolution", "64") == ["resolution"]
    differing = ["inversion.steps", "resolution", "keep_aspect", "window"]
    assert record("--steps", "1", "--resolution", "64") == differing
    assert RunSettings.paper().differences_from_paper() == []


@pytest.fixture
def own(tmp_path):
    return own_images(tmp_path / "own")


@pytest.fixture
def plan_of(call, own, monkeypatch):
    """Return the plan that ``bench folder`` would measure, and the data set."""

    def called(*more):
        seen = []

        def stop(dataset, plan, *_):
            seen.append((plan, dataset))
            raise Reached

        monkeypatch.setattr(measuring, "Measuring", stop)
        names = ("--images", own / "images", "--masks", own / "masks", "--names", own / "names.txt")
        with pytest.raises(Reached):
            call("bench", "folder", *names, *more)
        return seen[0]

    return called


def test_bench_measures_as_the_paper(plan_of):
    plan, dataset = plan_of("--paper", "--template", "{}")
    assert dict(plan.entries[0].inversion).items() >= PAPER_INVERSION.items()
    assert (plan.resolution, plan.keep_aspect, plan.shown_context(dataset)) == (448, False, None)
    assert dataset.template == "{}"
    settings = plan.settings(dataset)
    assert (settings["keep_aspect"], settings["pictures_native"]) == (False, True)


def test_bench_without_it_keeps_its_plan_and_the_settings_of_kept_records(plan_of):
    plan, dataset = plan_of()
    assert (plan.resolution, plan.keep_aspect, plan.context) == (None, True, None)
    assert not {"keep_aspect", "pictures_native"} & plan.settings(dataset).keys()


def test_the_paper_shows_the_whole_image_where_the_set_has_windows(own):
    dataset = ImageFolder(own / "images", own / "masks", own / "names.txt")
    dataset.context = 2.0
    plan = MeasuringPlan(models=("demo",), entries=())
    assert plan.shown_context(dataset) == 2.0
    assert MeasuringPlan(models=("demo",), entries=(), context=0.0).shown_context(dataset) is None


def test_only_methods_that_use_tokens_see_448_pixels(own, monkeypatch):
    """The paper shows cut-outs at the model's own resolution."""
    sides = {}
    model = demo_model()
    preprocess = type(model).preprocess

    def noted(self, pixels, *, resolution=None, **more):
        made = preprocess(self, pixels, resolution=resolution, **more)
        sides.setdefault(current[0], set()).add(tuple(made.shape[2:]))
        return made

    monkeypatch.setattr(type(model), "preprocess", noted)
    for name in ("maskinversion", "maskclip", "crop"):
        current = [name]
        entries = tuple(methods(name, InversionConfig(steps=1)))
        plan = MeasuringPlan(
            models=("demo",),
            entries=entries,
            resolution=64,  # in place of 448, to be quick
            keep_aspect=False,
            pictures_native=True,
            limit=1,
        )
        dataset = ImageFolder(own / "images", own / "masks", own / "names.txt")
        store = open_records(None, "folder", plan, dataset)
        Measuring(dataset, plan, store, lambda _: model).run()
    native = model.native_resolution
    square = {(64, 64)}
    assert sides == {"maskinversion": square, "maskclip": square, "crop": {(native, native)}}


@pytest.mark.parametrize("command", ["steps", "alpha"])
def test_curves_keep_what_they_vary(call, monkeypatch, command):
    seen = []

    def stop(subject, plan, *curve):
        seen.append((plan, *curve))
        raise Reached

    monkeypatch.setattr("benchmarks.drawn.curves.CurveBench", stop)
    with pytest.raises(Reached):
        call("bench", command, "--short", "--paper")
    ((plan, _, values, inversion),) = seen
    assert (plan.resolution, inversion.learning_rate, inversion.alpha) == (448, 0.1, 0)
    assert (values[-1], inversion.steps) == ((30, 30) if command == "steps" else (30, 10))
