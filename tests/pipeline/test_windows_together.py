"""Windows that are encoded and inverted together, and read ahead: one by one they are the same."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.engine.invert.several import ImageBatch
from napari_maskinversion.engine.models.backbone import Backbone
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline import window_runner
from napari_maskinversion.pipeline.live import LiveRun
from napari_maskinversion.pipeline.run import PlaneTask, run_planes
from napari_maskinversion.pipeline.run_progress import Progress, RegionChunk
from napari_maskinversion.results.settings import RunSettings
from tests.listeners import collect
from tests.scenes import demo_model, picture

pytestmark = pytest.mark.usefixtures("all_known")
WORDS = Vocabulary(("apple", "car"))
IMAGE = np.tile(picture(200, 200), (5, 5, 1))
MASK = np.ones((40, 36), bool)
# Of several sizes, so that windows differ in pixels; two share one.
BOXES = [(50, 50, 34), (50, 90, 34), (60, 500, 20), (300, 60, 36), (420, 800, 24), (800, 500, 12)]


def task(z=0, count=None):
    regions = [
        Region(number + 1, (y, x, y + side, x + side), MASK[:side, :1].repeat(side, 1))
        for number, (y, x, side) in enumerate(BOXES[:count])
    ]
    return PlaneTask(
        source=ArrayPlane(IMAGE), regions=Regions((1000, 1000), regions), position=(("z", z),)
    )


def run(tasks, **settings):
    settings = RunSettings.of(InversionConfig(steps=2), **settings)
    return collect(lambda: run_planes(demo_model(), tasks, WORDS, settings))


def alone(monkeypatch, tasks, **settings):
    with monkeypatch.context() as patch:
        patch.setattr(window_runner, "masks_at_once", lambda *_: 1)
        return run(tasks, **settings)[1]


def test_rows_records_and_progress_are_those_of_one_window_after_the_other(batches, monkeypatch):
    tasks = [task(), task(1, 3)]
    news, together = run(tasks)
    assert batches == [7]  # of two planes
    expected = alone(monkeypatch, tasks)
    assert batches == [7]
    assert together.ids == expected.ids
    for one, other in zip(together.regions, expected.regions, strict=True):
        np.testing.assert_allclose(one.embedding, other.embedding, atol=1e-5)
        np.testing.assert_allclose(one.losses, other.losses, atol=1e-5)
        np.testing.assert_allclose(one.grid_map, other.grid_map, atol=1e-4 * other.grid_map.max())
        assert one.iou == pytest.approx(other.iou, abs=0.01)
        assert one.window.image_norm == pytest.approx(other.window.image_norm, rel=1e-5)
        assert replace(one.window, image_norm=0) == replace(other.window, image_norm=0)
        assert (one.index, one.position, one.bbox) == (other.index, other.position, other.bbox)
        assert one.suggestion == other.suggestion
    chunks = [item for item in news if isinstance(item, RegionChunk)]
    assert [len(chunk.results) for chunk in chunks] == [2, 1, 1, 1, 1, 2, 1]
    said = [item for item in news if isinstance(item, Progress)]
    assert said[0].text == "Looking at parts 1-7 of 7, 0 %"
    assert said[-1].text == "Regions 1-9 of 9, step 2 of 2"
    assert said[-1].maps().shape[0] == 9
    assert said[-1].box == together.regions[0].window.box
    assert said[-1].indices == tuple(row.index for chunk in chunks for row in chunk.results)
    shares = [item.fraction for item in said]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_the_first_of_live_runs_takes_many_windows_together_and_few_stay_encoded(batches):
    live = LiveRun(demo_model(), RunSettings.of(InversionConfig(steps=1)))
    first = live.update([task()], WORDS)
    assert (batches, len(live._encoded)) == ([5], 0)
    moved = [replace(one, bbox=tuple(side + 1 for side in one.bbox)) for one in task().regions[:1]]
    again = Regions((1000, 1000), [*moved, *task().regions[1:]])
    live.update([replace(task(), regions=again)], WORDS)
    assert (batches, len(live._encoded), live.inverted) == ([5], 1, len(first) + 1)


@pytest.mark.parametrize(
    "settings", [{"method": "crop"}, {"chunk_size": 1}, {"explainer": "gradcam"}, {"fast": True}]
)
def test_what_cannot_be_batched_goes_one_by_one(batches, settings):
    _, results = run([task()], **settings)
    assert not batches
    assert results.ids == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("where", ["encoding", "inverting"])
def test_windows_that_do_not_fit_together_are_halved(batches, monkeypatch, where):
    original = ImageBatch.__init__, ImageBatch.invert

    def init(self, model, tensors, *arguments):
        if where == "encoding" and len(tensors) > 2:
            raise MemoryError
        original[0](self, model, tensors, *arguments)

    def invert(self, masks, first=0):
        if where == "inverting" and sum(map(len, masks)) > 2:
            raise MemoryError
        return original[1](self, masks, first)

    monkeypatch.setattr(ImageBatch, "__init__", init)
    monkeypatch.setattr(ImageBatch, "invert", invert)
    news, results = run([task()])
    notes = {item.note for item in news if isinstance(item, Progress)}
    assert "Not enough memory: 2 regions at once" in notes
    assert {row.window.resolution for row in results.regions} == {demo_model().working_resolution}
    expected = alone(monkeypatch, [task()])
    np.testing.assert_allclose(results.embeddings, expected.embeddings, atol=1e-5)


def test_a_batch_knows_how_much_memory_its_graphs_may_keep(batches, monkeypatch):
    original, given = ImageBatch.__init__, []

    def init(self, model, tensors, *arguments):
        given.append(arguments[-1])
        original(self, model, tensors, *arguments)

    monkeypatch.setattr(ImageBatch, "__init__", init)
    run([task()])
    assert {*given} == {MaskInverter(demo_model()).memory_mb << 20}


def test_constants_of_fewer_windows_are_tried_before_a_smaller_input(batches, monkeypatch):
    """Of a batch that was encoded, all constants fill the memory, whatever is inverted of it."""
    original = ImageBatch.invert

    def invert(self, masks, first=0):
        if len(self.embeddings) > 2:
            raise MemoryError
        return original(self, masks, first)

    monkeypatch.setattr(ImageBatch, "invert", invert)
    _, results = run([task()])
    assert batches[0] == 5
    assert set(batches[1:]) <= {2, 3}
    assert {row.window.resolution for row in results.regions} == {demo_model().working_resolution}
    expected = alone(monkeypatch, [task()])
    np.testing.assert_allclose(results.embeddings, expected.embeddings, atol=1e-5)


def test_planes_of_one_batch_are_known_or_not_each_for_itself(batches, monkeypatch):
    tasks = [task(count=3), task(1, 3)]
    monkeypatch.setattr(window_runner, "is_unknown", lambda source, _: source is tasks[0].source)
    _, results = run(tasks)
    assert batches == [4]
    assert [row.window.unknown for row in results.regions] == [True] * 3 + [False] * 3


class Watched(ArrayPlane):
    """A plane that notes in which thread it is read, and how many read it at once."""

    def __init__(self, seconds=0.0):
        super().__init__(IMAGE)
        self.threads, self.error, self.seconds = [], None, seconds
        self.now = self.most = 0

    def read(self, level, box):
        self.threads.append(threading.current_thread().name)
        if self.error is not None and len(self.threads) > 2:
            raise self.error
        self.now += 1
        self.most = max(self.most, self.now)
        time.sleep(self.seconds)
        self.now -= 1
        return super().read(level, box)


def test_a_plane_is_asked_whether_it_is_known_when_no_thread_reads_it(monkeypatch):
    gate = threading.Event()  # opened when it is the second plane's turn

    class Late(Watched):
        def read(self, level, box):
            assert threading.current_thread() is threading.main_thread() or gate.wait(60)
            return super().read(level, box)

    def turn(news):
        if isinstance(news, Progress) and (news.stage, news.done) == ("encoding", 3):
            gate.set()

    def ask(source, _):
        source.read(0, (0, 0, 8, 8))
        return False

    monkeypatch.setattr(window_runner, "is_unknown", ask)
    planes = [Late(0.05), Late(0.05)]
    tasks = [replace(task(z, 3), source=source) for z, source in enumerate(planes)]
    settings = RunSettings.of(InversionConfig(steps=1), chunk_size=3)
    with listening(turn):
        run_planes(demo_model(), tasks, WORDS, settings)
    assert [source.most for source in planes] == [1, 1]


def test_who_waits_for_a_window_can_stop_meanwhile(monkeypatch):
    monkeypatch.setattr(window_runner, "_PATIENCE", 0.01)
    read, source = threading.Event(), ArrayPlane(IMAGE)
    take, said = source.read, []

    def slow(level, box):
        if threading.current_thread() is not threading.main_thread():
            assert read.wait(60)
        return take(level, box)

    def stop(news):
        if isinstance(news, Progress) and news.done == 2 and news.stage == "encoding":
            said.append(news)
            if len(said) > 3:
                read.set()

    monkeypatch.setattr(source, "read", slow)
    settings = RunSettings.of(InversionConfig(steps=1), chunk_size=2)
    with listening(stop):
        run_planes(demo_model(), [replace(task(), source=source)], WORDS, settings)
    assert read.is_set()


def test_the_next_windows_are_read_meanwhile_and_no_thread_is_left():
    source = Watched()
    run([replace(task(), source=source)], chunk_size=1)
    assert source.threads[0] == threading.current_thread().name
    assert {name.partition("_")[0] for name in source.threads[1:]} == {"windows"}
    assert len(source.threads) == 5  # each window once
    assert not [one for one in threading.enumerate() if one.name.startswith("windows")]


def test_for_a_gpu_the_thread_resizes_too(batches, monkeypatch):
    resized, to_input = [], Backbone.to_input

    def noting(self, *arguments, **keywords):
        resized.append(threading.current_thread().name.partition("_")[0])
        return to_input(self, *arguments, **keywords)

    side = demo_model().working_resolution
    monkeypatch.setattr(Backbone, "to_input", noting)
    monkeypatch.setattr(window_runner.WindowRunner, "_side_ahead", lambda *_: side)
    _, results = run([task()], chunk_size=2)
    assert batches == [2, 2]
    assert resized.count("windows") == 4
    expected = alone(monkeypatch, [task()])
    np.testing.assert_allclose(results.embeddings, expected.embeddings, atol=1e-5)


def test_a_window_that_cannot_be_read_ends_the_run_when_it_is_its_turn():
    source, kept = Watched(), []
    source.error = OSError("the disk is gone")

    def hear(news):
        if isinstance(news, RegionChunk):
            kept.append(news)

    settings = RunSettings.of(InversionConfig(steps=1), chunk_size=1)
    with pytest.raises(OSError, match="the disk is gone"), listening(hear):
        run_planes(demo_model(), [replace(task(), source=source)], WORDS, settings)
    assert len(kept[-1].so_far) == 3


def test_cancel_ends_the_thread_too():
    def stop(news):
        if isinstance(news, Progress) and news.stage == "inverting":
            raise Cancelled

    settings = RunSettings.of(InversionConfig(steps=1), chunk_size=1)
    with pytest.raises(Cancelled), listening(stop):
        run_planes(demo_model(), [task()], WORDS, settings)
    assert not [one for one in threading.enumerate() if one.name.startswith("windows")]
