"""Results that follow their regions, on the bundled model."""

from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.app.review.learning import learn
from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.identity import identify_all
from napari_maskinversion.base.progress import listening
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.images.windows import WindowConfig
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline import run
from napari_maskinversion.pipeline.live import LiveRun
from napari_maskinversion.pipeline.run import PlaneTask, RegionChunk, run_planes
from napari_maskinversion.results.results import Results
from tests.scenes import demo_model, label_image, picture, settings_of

WORDS = Vocabulary(("apple", "car", "house"))
QUICK = settings_of(steps=2)
IMAGE = ArrayPlane(picture())


def tasks(labels):
    return [PlaneTask(source=IMAGE, regions=Regions.from_labels(labels))]


@pytest.fixture
def counted(monkeypatch):
    """Ids of the regions inverted, and how often an image was encoded."""
    seen = {"inverted": [], "encoded": 0}
    invert, encode = MaskInverter.invert, MaskInverter.set_image

    def count_masks(self, masks, *given, **options):
        seen["inverted"] += masks.ids
        return invert(self, masks, *given, **options)

    def count_images(self, *given, **options):
        seen["encoded"] += 1
        return encode(self, *given, **options)

    monkeypatch.setattr(MaskInverter, "invert", count_masks)
    monkeypatch.setattr(MaskInverter, "set_image", count_images)
    return seen


@pytest.fixture
def live(counted):
    """Five regions, answered; nothing is counted before."""
    made = LiveRun(demo_model(), QUICK)
    made.first = made.update(tasks(label_image(5)), WORDS)
    counted["inverted"].clear()
    counted["encoded"] = 0
    return made


def test_the_first_update_is_an_ordinary_run(live):
    expected = run_planes(demo_model(), tasks(label_image(5)), WORDS, QUICK)
    first, second = live.first.embeddings, expected.embeddings
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert (
        live.first.to_frame()["suggestion"].tolist() == expected.to_frame()["suggestion"].tolist()
    )
    # Several windows share the memory of live mode.
    info = replace(live.first.info, machine=expected.info.machine)
    assert info == expected.info


def test_only_the_region_that_changed_is_inverted_and_the_image_not_encoded_again(live, counted):
    labels = label_image(5)
    labels[label_image(5) == 3] = 0
    labels[30:40, 60:75] = 3
    results = live.update(tasks(labels), WORDS)
    assert counted == {"inverted": [3], "encoded": 0}
    assert [a is b for a, b in zip(results.regions, live.first.regions, strict=True)] == [
        True,
        True,
        False,
        True,
        True,
    ]
    alone = run_planes(demo_model(), tasks(np.where(labels == 3, 3, 0)), WORDS, QUICK)
    np.testing.assert_allclose(results.raw_embeddings[2], alone.raw_embeddings[0], atol=1e-4)


def test_a_region_moved_by_one_pixel_has_changed_and_one_drawn_over_itself_has_not(live, counted):
    labels = label_image(5)
    live.update(tasks(labels.copy()), WORDS)
    assert counted["inverted"] == []
    moved = np.where(labels == 1, 0, labels)
    moved[1:, 1:][labels[:-1, :-1] == 1] = 1
    live.update(tasks(moved), WORDS)
    assert 1 in counted["inverted"]


def test_removed_regions_leave_and_new_ones_take_their_place(live, counted):
    labels = label_image(5)
    labels[labels == 2] = 0
    labels[45:55, 66:78] = 4000
    results = live.update(tasks(labels), WORDS)
    assert results.ids == [1, 3, 4, 5, 4000]
    assert [region.index for region in results.regions] == [0, 1, 2, 3, 4]
    assert counted["inverted"] == [4000]
    assert [one.key.id for one in live.identities] == results.ids
    assert len(live.update(tasks(np.zeros_like(labels)), WORDS)) == 0


def test_other_words_re_rank_without_inverting(live, counted):
    words = Vocabulary(("fish", "key", "bus", "cat"), threshold=0.9)
    results = live.update(tasks(label_image(5)), words)
    assert counted == {"inverted": [], "encoded": 0}
    expected = run_planes(demo_model(), tasks(label_image(5)), words, QUICK)
    for region, other in zip(results.regions, expected.regions, strict=True):
        assert region.ranking.labels == other.ranking.labels
        assert region.suggestion == other.suggestion
        np.testing.assert_allclose(
            region.ranking.similarities, other.ranking.similarities, atol=1e-5
        )
    assert results.info.vocabulary == words


def test_an_update_that_is_stopped_keeps_what_it_finished(counted):
    live = LiveRun(demo_model(), QUICK.changed({"chunk_size": 2}))

    def stop(news):
        if live.inverted >= 2 and not isinstance(news, RegionChunk):
            raise Cancelled

    with pytest.raises(Cancelled), listening(stop):
        live.update(tasks(label_image(5)), WORDS)
    first = list(counted["inverted"])
    results = live.update(tasks(label_image(5)), WORDS)
    assert first[:2] == [1, 2]
    assert counted["inverted"][len(first) :] == [3, 4, 5]
    assert results.ids == [1, 2, 3, 4, 5]
    assert counted["encoded"] == 1


def test_a_small_region_gets_its_window_encoded_and_the_others_stay(counted):
    big = ArrayPlane(picture(300, 300))
    labels = np.zeros((300, 300), np.uint8)
    labels[20:150, 20:150], labels[200:212, 200:212] = 1, 2

    def update(values):
        task = PlaneTask(source=big, regions=Regions.from_labels(values))
        return live.update([task], WORDS)

    live = LiveRun(demo_model(), QUICK.changed({"window": WindowConfig(mode="auto")}))
    before = update(labels)
    assert [region.window.whole for region in before.regions] == [True, False]
    assert counted["encoded"] == 2
    labels[200:214, 200:212] = 2
    after = update(labels)
    assert counted["encoded"] == 3  # its window has grown
    assert after.regions[0] is before.regions[0]
    labels[20:30, 20:150] = 0
    update(labels)
    assert counted == {"inverted": [1, 2, 2, 1], "encoded": 3}  # the plane was kept


def test_where_memory_runs_out_no_window_is_kept(live, counted, monkeypatch):
    invert = MaskInverter.invert

    def fail_once(self, *given, **options):
        monkeypatch.setattr(MaskInverter, "invert", invert)
        raise MemoryError

    monkeypatch.setattr(MaskInverter, "invert", fail_once)
    labels = label_image(5)
    labels[50:58, 66:78] = 7
    results = live.update(tasks(labels), WORDS)
    assert results.ids[-1] == 7
    assert results.regions[-1].window.resolution < results.regions[0].window.resolution
    assert len(live._encoded) == 0


def test_a_run_that_finds_its_windows_encoded_tells_nothing_of_speed(live, monkeypatch):
    from napari_maskinversion.pipeline import window_runner

    told = []
    monkeypatch.setattr(window_runner, "remember", lambda *given, **more: told.append(given))
    labels = label_image(5)
    labels[50:58, 66:78] = 7
    live.update(tasks(labels), WORDS)
    assert told == []


def test_the_pipeline_itself_keeps_nothing_unless_asked(counted):
    for _ in range(2):
        run.run_planes(demo_model(), tasks(label_image(2)), WORDS, QUICK)
    assert counted["encoded"] == 2


def test_what_a_run_has_found_is_not_computed_again(counted):
    labels = label_image(5)
    done = run_planes(demo_model(), tasks(labels), WORDS, QUICK)
    known = identify_all(Regions.from_labels(labels))
    counted["inverted"].clear()
    live = LiveRun(demo_model(), QUICK)
    live.adopt(done, known)
    first = live.update(tasks(labels), WORDS)
    assert counted["inverted"] == []
    assert all(a is b or a == b for a, b in zip(first.regions, done.regions, strict=True))
    labels[labels == 2] = 0
    y, x = np.argwhere(labels == 4)[0]
    labels[y, x] = 0
    second = live.update(tasks(labels), WORDS)
    assert counted["inverted"] == [4]
    assert second.ids == [1, 3, 4, 5]
    # A run that was stopped: the rest is computed.
    half = LiveRun(demo_model(), QUICK)
    half.adopt(Results(done.info, done.regions[:2]), known)
    counted["inverted"].clear()
    half.update(tasks(label_image(5)), WORDS)
    assert counted["inverted"] == [3, 4, 5]


def test_live_mode_goes_on_with_the_ranking_that_decisions_have_not_changed(live, counted):
    first = live.first
    decided = {0: "boat", 1: None}
    learned = learn(demo_model, first, decided, "image", {})
    assert learned.regions[0].suggestion == "boat"
    again = LiveRun(demo_model(), QUICK)
    again.adopt(learned, live.identities)
    after = again.update(tasks(label_image(5)), WORDS)
    assert counted["inverted"] == []
    pairs = zip(after.regions, first.regions, strict=True)
    assert all(one.ranking is other.ranking for one, other in pairs)
