"""A run that does not fit in memory asks for less, says so, and keeps what it has."""

from dataclasses import replace
from functools import partial
from shutil import copytree, rmtree

import numpy as np
import pandas as pd
import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import NotEnoughMemoryError
from napari_maskinversion.base.oom_fallback import is_out_of_memory
from napari_maskinversion.base.progress import listening, telling
from napari_maskinversion.engine.compute import devices, matmul
from napari_maskinversion.engine.invert import inverter as predictor
from napari_maskinversion.engine.models import loading
from napari_maskinversion.engine.models.backbone import Backbone
from napari_maskinversion.engine.models.loading import copy_to_cpu, load_where_it_fits
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.engine.models.towers.openclip_vit import ClassTokenTower
from napari_maskinversion.language.labels.label import TEMPLATES
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.language.text import embed_vocabulary
from napari_maskinversion.pipeline import window_runner
from napari_maskinversion.pipeline.run import RegionChunk
from napari_maskinversion.pipeline.window_runner import window_attempts
from tests import scenes
from tests.engine.tiny import tiny_clip
from tests.listeners import at
from tests.scenes import picture, regions, run, write_scene

demo_model = partial(scenes.demo_model, "cpu")  # which says where it is, or pretends
WORDS = Vocabulary(("apple", "car", "house"))
QUICK = InversionConfig(steps=2)


def follow(*asked, **options):
    """What is said, once each; chunks; and the results, or the error that ended the run."""
    notes, chunks = [], []

    def hear(news):
        if isinstance(news, RegionChunk):
            chunks.append(news)
        elif news.note and news.note not in notes[-1:]:
            notes.append(news.note)

    with listening(hear):
        try:
            return notes, chunks, run(*asked, **options)
        except NotEnoughMemoryError as error:
            return notes, chunks, error


@pytest.fixture(autouse=True)
def a_gpu_that_can_be_asked(monkeypatch):
    """Runs record the device's name and its memory; the GPU of these tests does not exist."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "pretended GPU")
    monkeypatch.setattr(predictor, "total_memory", lambda device: 8 << 30)


@pytest.fixture(scope="module")
def undisturbed():
    return follow(demo_model(), picture(), regions(9), WORDS, QUICK)[2]


@pytest.fixture
def short_of_memory(monkeypatch):
    """Let inversions fail for which a test's function says so; it gets inverter and masks."""

    def install(fails, error=MemoryError):
        original = predictor.MaskInverter.invert

        def invert(self, masks, *args, **keywords):
            def break_off(_):
                if fails(self, masks):
                    raise error("CUDA out of memory. Tried to allocate 2 GiB")

            under_way = at(2, break_off)
            with telling(lambda news: under_way(news) or news):
                return original(self, masks, *args, **keywords)

        monkeypatch.setattr(predictor.MaskInverter, "invert", invert)

    return install


def test_a_chunk_that_does_not_fit_is_halved_and_every_answer_stays_the_same(
    short_of_memory, undisturbed
):
    short_of_memory(lambda inverter, masks: len(masks) > 2, torch.OutOfMemoryError)
    notes, chunks, results = follow(demo_model(), picture(), regions(9), WORDS, QUICK, chunk_size=8)
    assert notes == [
        "Not enough memory: 4 regions at once",
        "Not enough memory: 2 regions at once",
    ]
    assert [len(chunk.results) for chunk in chunks] == [2, 2, 2, 2, 1]
    assert results.ids == undisturbed.ids
    np.testing.assert_allclose(results.embeddings, undisturbed.embeddings, atol=1e-5)
    assert [r.suggestion for r in results.regions] == [r.suggestion for r in undisturbed.regions]
    assert {region.window.memory_note for region in results.regions} == {notes[-1]}
    windows = [replace(window, memory_note="") for window in results.windows]
    assert tuple(windows) == undisturbed.windows


def test_then_the_input_shrinks_and_each_region_knows_what_it_was_seen_in(
    short_of_memory, undisturbed
):
    # Fits until four regions are done, then only at half the size.
    done = []

    def fails(inverter, masks):
        if len(done) >= 2 and max(inverter.input_size) > 100:
            return True
        done.append(len(masks))
        return False

    short_of_memory(fails)
    notes, chunks, results = follow(demo_model(), picture(), regions(9), WORDS, QUICK, chunk_size=2)
    side = demo_model().working_resolution
    assert notes == [
        "Not enough memory: 1 region at once",
        f"Not enough memory: input of {side // 2} px instead of {side}",
    ]
    # With the smaller input there is room for two again.
    assert [len(chunk.results) for chunk in chunks] == [2, 2, 2, 2, 1]
    windows = [region.window for region in results.regions]
    assert [window.resolution for window in windows] == [side] * 4 + [side // 2] * 5
    assert [window.grid for window in windows[3:5]] == [
        undisturbed.regions[0].window.grid,
        (7, 9),
    ]
    assert {region.grid_map.shape for region in results.regions[4:]} == {(7, 9)}
    np.testing.assert_allclose(results.embeddings[:4], undisturbed.embeddings[:4], atol=1e-5)
    assert len(results.to_frame()) == 9
    assert results.heatmap(8).shape == (60, 80)


class PretendGpu:
    """The demo model, said to be on a device that is not the CPU."""

    device = torch.device("cuda:0")

    def __getattr__(self, name):
        return getattr(demo_model(), name)


def test_the_cpu_goes_on_in_float32_where_it_lacks_the_precision(short_of_memory, monkeypatch):
    short_of_memory(lambda inverter, masks: inverter.model.device.type == "cuda")
    monkeypatch.setattr(matmul, "_missing", lambda *_: "")
    monkeypatch.setattr(window_runner, "has_precision", lambda *_: False)
    config = QUICK.changed(precision="tf32")
    _, _, results = follow(PretendGpu(), picture(), regions(3), WORDS, config)
    assert {region.window.device for region in results.regions} == {"cpu"}
    assert {region.window.route for region in results.regions} == {"direct"}


@pytest.mark.parametrize("dead", [False, True], ids=["answers", "answers no more"])
def test_the_cpu_goes_on_where_a_driver_fails(short_of_memory, undisturbed, monkeypatch, dead):
    error = "CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA"
    fails = [False, False, True]  # in the third chunk
    short_of_memory(
        lambda *_: bool(fails) and fails.pop(0), lambda _: torch.AcceleratorError(error)
    )

    def unanswered(model):
        raise RuntimeError(error)

    if dead:
        monkeypatch.setattr(loading, "_copied", unanswered)
    notes, _, results = follow(PretendGpu(), picture(), regions(9), WORDS, QUICK, chunk_size=2)
    said = "cuda:0 failed (CUDA error: unspecified launch failure): going on on the CPU"
    assert notes == [said]
    places = [region.window.device for region in results.regions]
    assert places == ["cuda:0"] * 4 + ["cpu"] * 5
    assert results.ids == undisturbed.ids
    np.testing.assert_allclose(results.embeddings, undisturbed.embeddings, atol=1e-5)


def test_a_device_that_answers_no_more_has_its_weights_read_from_where_they_were(
    monkeypatch, tmp_path
):
    folder = copytree(bundled_folder(), tmp_path / "demo")  # a user's, named as one of ours
    own, wrapped = loading.load_model(folder, device="cpu"), loading.wrap_open_clip(tiny_clip())
    wrapped.name = "demo"
    error = RuntimeError("CUDA error: unspecified launch failure")
    monkeypatch.setattr(loading, "_copied", partial(raising, error))
    assert copy_to_cpu(own).spec.source == str(folder)
    rmtree(folder)
    for model in (own, wrapped):
        with pytest.raises(RuntimeError) as raised:
            copy_to_cpu(model)
        assert raised.value is error


def raising(error, _):
    raise error


def test_what_fails_on_a_cpu_is_an_error(short_of_memory):
    short_of_memory(lambda *_: True, lambda _: RuntimeError("CUDA error: unknown"))
    with pytest.raises(RuntimeError, match="unknown"):
        follow(demo_model(), picture(), regions(2), WORDS, QUICK)


def test_then_the_cpu_takes_over_with_the_whole_input(short_of_memory, undisturbed):
    short_of_memory(lambda inverter, masks: inverter.model.device.type == "cuda")
    notes, _, results = follow(PretendGpu(), picture(), regions(9), WORDS, QUICK, chunk_size=2)
    assert notes[-1] == "Not enough memory on cuda:0: going on on the CPU"
    assert [note for note in notes if "input" in note and "at once" not in note] == [
        "Not enough memory: input of 64 px instead of 128",
        "Not enough memory: input of 32 px instead of 128",
    ]
    assert {region.window.device for region in results.regions} == {"cpu"}
    assert {region.window.resolution for region in results.regions} == {
        demo_model().working_resolution
    }
    np.testing.assert_allclose(results.embeddings, undisturbed.embeddings, atol=1e-5)


def test_where_nothing_helps_the_error_says_what_to_do_and_regions_are_kept(short_of_memory):
    calls = []

    def fails(inverter, masks):
        calls.append(len(masks))
        return len(calls) > 1

    short_of_memory(fails)
    notes, chunks, error = follow(demo_model(), picture(), regions(5), WORDS, QUICK, chunk_size=2)
    assert len(chunks[-1].so_far) == 2
    assert isinstance(error, NotEnoughMemoryError)
    assert "not even for one region" in str(error)
    assert "a smaller model" in str(error)
    assert calls == [2, 2, 1, 2, 1, 2, 1]
    assert len(notes) == 5


def test_an_image_that_does_not_fit_is_seen_smaller(monkeypatch, undisturbed):
    original = ClassTokenTower.encode_checked

    def encode(tower, image, *how):
        if image.shape[2] * image.shape[3] > 64 * 64 * 1.5:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return original(tower, image, *how)

    monkeypatch.setattr(ClassTokenTower, "encode_checked", encode)
    notes, _, results = follow(demo_model(), picture(), regions(3), WORDS, QUICK)
    side = demo_model().working_resolution
    assert notes == [f"Not enough memory: input of {side // 2} px instead of {side}"]
    assert results.info.input_size == results.regions[0].window.input_size == (56, 72)


@pytest.mark.parametrize("fits", [1, 0])
def test_the_command_line_says_it_and_writes_what_is_finished(
    short_of_memory, tmp_path, call, fits
):
    write_scene(tmp_path)
    calls = []

    def fails(inverter, masks):
        calls.append(len(masks))
        return len(calls) > 1 and len(masks) > fits

    short_of_memory(fails)
    words = ["run", tmp_path / "image.png", tmp_path / "masks.png", "--labels", "car,apple"]
    words += ["--steps", 1, "--chunk-size", 2, "--device", "cpu", "--out", tmp_path / "out"]
    code, _, said = call(*words)
    assert said.count("1 region at once") == (1 if fits else 3)
    assert (code == 0) == bool(fits)
    assert ("not even for one region" in said) == (not fits)
    rows = len(pd.read_csv(tmp_path / "out" / "regions.csv"))
    assert rows == (5 if fits else 2)


def test_inputs_stay_multiples_of_the_patch_and_large_enough_for_a_map():
    attempts = window_attempts(1, 336, "mps", patch=14)
    assert [(attempt.resolution, attempt.device) for attempt in attempts] == [
        *((336, "mps"), (168, "mps"), (84, "mps")),
        *((336, "cpu"), (168, "cpu"), (84, "cpu")),
    ]
    assert [attempt.note for attempt in attempts[:5]] == [
        "",
        "Not enough memory: input of 168 px instead of 336",
        "Not enough memory: input of 84 px instead of 336",
        "Not enough memory on mps: going on on the CPU",
        "Not enough memory: input of 168 px instead of 336",
    ]


def test_a_copy_on_the_cpu_is_the_same_model_with_weights_of_its_own():
    from napari_maskinversion import wrap_open_clip

    clip = tiny_clip()
    model = wrap_open_clip(clip)
    copied = copy_to_cpu(model)
    assert copied.fingerprint == model.fingerprint
    assert repr(copied) == repr(model)
    mine = {p.data_ptr() for p in clip.parameters()}
    assert mine.isdisjoint(p.data_ptr() for p in copied.clip.parameters())
    np.testing.assert_array_equal(copied.encode_text(["a cat"]), model.encode_text(["a cat"]))
    half = copy_to_cpu(wrap_open_clip(tiny_clip().half()))
    assert half.dtype == torch.float32


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_all_ways_of_saying_that_memory_is_full_are_known(error):
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("expected scalar type Float"))
    assert not is_out_of_memory(ValueError("out of memory"))


# -- labels and models --------------------------------------------------------------------------

MANY = Vocabulary(("apple", "car", "house", "fish"), TEMPLATES["ensemble"])


@pytest.fixture
def few_sentences(monkeypatch):
    """Let the text tower fail where a test's function says so; it gets model and texts."""
    original = Backbone.encode_text

    def install(fails, error=None):
        def encode_text(self, texts):
            if fails(self, texts):
                raise error or MemoryError
            return original(self, texts)

        monkeypatch.setattr(Backbone, "encode_text", encode_text)

    return install


def test_labels_that_do_not_fit_are_embedded_a_few_at_a_time(few_sentences, monkeypatch, tmp_path):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path))
        expected = embed_vocabulary(demo_model(), MANY)
    few_sentences(lambda model, texts: len(texts) > 5, torch.OutOfMemoryError("full"))
    notes, chunks, results = follow(demo_model(), picture(), regions(2), MANY, QUICK)
    assert notes == ["Not enough memory for labels: 2 sentences at once"]
    assert chunks
    np.testing.assert_allclose(embed_vocabulary(demo_model(), MANY), expected, atol=1e-5)
    assert {region.window.resolution for region in results.regions} == {
        demo_model().working_resolution
    }


class GpuWithoutRoomForText(PretendGpu):
    """Images fit, not one sentence does."""

    def encode_text(self, texts):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_then_the_cpu_embeds_them_and_the_images_stay_where_they_are(undisturbed):
    notes, _, results = follow(GpuWithoutRoomForText(), picture(), regions(9), WORDS, QUICK)
    assert notes[-1] == "Not enough memory for labels on cuda:0: embedding them on the CPU"
    assert {region.window.device for region in results.regions} == {"cuda:0"}
    assert [r.suggestion for r in results.regions] == [r.suggestion for r in undisturbed.regions]


def test_where_no_label_fits_the_error_says_so_and_other_errors_pass(few_sentences):
    few_sentences(lambda model, texts: True)
    *_, error = follow(demo_model(), picture(), regions(2), WORDS, QUICK)
    assert isinstance(error, NotEnoughMemoryError)
    assert "not even for one sentence on cpu" in str(error)
    few_sentences(lambda model, texts: True, RuntimeError("expected scalar type Float"))
    with pytest.raises(RuntimeError, match="scalar type"):
        follow(demo_model(), picture(), regions(2), WORDS, QUICK)


@pytest.fixture
def full_gpu(monkeypatch):
    """A machine with a GPU that has no room for any model; gives where models were sent."""
    original, sent = torch.nn.Module.to, []

    def to(self, device, *args, **keywords):
        sent.append(str(device))
        if torch.device(device).type == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return original(self, device, *args, **keywords)

    monkeypatch.setattr(torch.nn.Module, "to", to)
    monkeypatch.setattr(devices, "devices", lambda: ["cpu", "cuda:0"])
    return sent


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_model_that_does_not_fit_its_device_is_loaded_on_the_cpu(full_gpu, device):
    loaded = load_where_it_fits("demo", device=device)
    assert loaded.note == "Not enough memory on cuda:0 for demo: it is on the CPU"
    assert full_gpu == ["cuda:0", "cpu"]
    assert str(loaded.model.device) == "cpu"
    assert loaded.model.fingerprint == demo_model().fingerprint


def test_a_model_that_fits_nowhere_is_told_and_other_errors_pass(full_gpu, monkeypatch):
    def full(self, *args, **keywords):
        raise MemoryError

    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(NotEnoughMemoryError, match="load demo. Close other programs"):
        load_where_it_fits("demo")

    def broken(self, *args, **keywords):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(torch.nn.Module, "to", broken)
    with pytest.raises(RuntimeError, match="no kernel image"):
        load_where_it_fits("demo")


def test_the_command_line_says_where_the_model_is(full_gpu, capsys):
    from napari_maskinversion.cli.models import load
    from napari_maskinversion.results.settings import RunSettings

    assert str(load(RunSettings()).device) == "cpu"
    assert "Not enough memory on cuda:0 for demo" in capsys.readouterr().err
