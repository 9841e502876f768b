"""Update keeps what has not changed: on the session, without a window."""

import gc
import weakref

import pytest
from napari.components import ViewerModel

from napari_maskinversion.app.requests.preparing import make_request
from napari_maskinversion.app.requests.run_task import RunTask
from napari_maskinversion.app.session import Session
from napari_maskinversion.app.work.model_store import ModelStore
from napari_maskinversion.engine.invert.inverter import MaskInverter
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from tests._napari.tasks import do
from tests.scenes import demo_model, label_image, picture


class Work:
    """A session with five regions, and runs on it without a window."""

    def __init__(self):
        self.viewer, self.session = ViewerModel(), Session()
        self.photo = self.viewer.add_image(picture(90, 120), name="photo")
        self.cells = self.viewer.add_labels(label_image(5, 90, 120), name="cells")
        self.session.choose(image=self.photo, regions=self.cells)
        self.session.change_words(Vocabulary(("apple", "car", "house")))
        self.session.run.change_settings({"inversion.steps": 1, "chunk_size": 2, "resolution": 64})

    def run(self, *, keep=False, stop_after=None):
        request = make_request(self.viewer, self.session, keep=keep)
        most = 10**9 if stop_after is None else stop_after
        run = RunTask(request, ModelStore()).work
        record, _ = do(run, stop=lambda update: getattr(update, "done", 0) >= most)
        self.session.show(record)
        return record.results


@pytest.fixture
def work(monkeypatch, inverted):
    """The same after a run."""
    monkeypatch.setattr(ModelStore, "get", lambda self, name, device: demo_model())
    monkeypatch.setattr(ModelStore, "has", lambda self, name, device: True)
    made = Work()
    made.run()
    assert sorted(inverted) == [1, 2, 3, 4, 5]
    inverted.clear()
    return made


def change(work):
    """Move region 3, remove region 5, draw region 9."""
    labels = work.cells.data
    labels[labels == 5] = 0
    labels[labels == 3] = 0
    labels[5:30, 85:110], labels[82:90, 2:20] = 3, 9


def test_update_inverts_changed_regions_only_and_keeps_the_others_bit_for_bit(work, inverted):
    before = {region.id: region for region in work.session.run.results.regions}
    change(work)
    after = work.run(keep=True)
    assert sorted(inverted) == [3, 9]
    assert sorted(after.ids) == [1, 2, 3, 4, 9]
    kept = {region.id: region for region in after.regions}
    assert all(kept[one].raw_embedding is before[one].raw_embedding for one in (1, 2, 4))
    assert kept[3].bbox != before[3].bbox


def test_after_cancel_update_goes_on_with_what_is_missing(work, inverted):
    change(work)
    work.session.run.change_settings({"chunk_size": 1})
    assert len(work.run(keep=True, stop_after=4)) == 4  # three kept, one of the two changed
    inverted.clear()
    assert len(work.run(keep=True)) == 5
    assert inverted == [9]


def test_words_changed_as_well_are_ranked_for_kept_regions(work, inverted):
    change(work)
    work.session.change_words(Vocabulary(("fish", "key")))
    after = work.run(keep=True)
    assert sorted(inverted) == [3, 9]
    assert {region.ranking.labels[0] for region in after.regions} <= {"fish", "key"}


@pytest.mark.parametrize("threshold", [None, -1.0])
def test_the_threshold_is_that_of_the_words_not_an_earlier_projects(work, threshold):
    work.session.run.change_settings({"threshold": 0.9})
    work.session.change_words(Vocabulary(("apple", "car"), threshold=threshold))
    after = work.run()
    assert {region.suggestion for region in after.regions} <= {"apple", "car"}
    assert (after.info.vocabulary.threshold, after.info.settings.threshold) == (threshold, None)


@pytest.mark.parametrize("changed", ["pixels", "settings", "limits of contrast", "nothing kept"])
def test_another_image_and_other_settings_invert_all(work, inverted, changed):
    if changed == "pixels":
        work.photo.data = work.photo.data[::-1].copy()
    elif changed == "settings":
        work.session.run.change_settings({"inversion.steps": 3})
    elif changed == "limits of contrast":
        work.viewer.layers.remove(work.photo)
        grey = picture(90, 120).mean(axis=2)
        work.session.choose(image=work.viewer.add_image(grey, contrast_limits=(0, 100)))
        work.session.choose(regions=work.cells)
        work.run()
        inverted.clear()
        work.session.run.image.contrast_limits = (0, 200)
    work.run(keep=changed != "nothing kept")
    assert sorted(inverted) == [1, 2, 3, 4, 5]


def test_what_a_stopped_run_computed_with_is_freed_at_once(work, monkeypatch):
    made, init = [], MaskInverter.__init__

    def remembered(self, *given, **options):
        made.append(weakref.ref(self))
        init(self, *given, **options)

    monkeypatch.setattr(MaskInverter, "__init__", remembered)
    gc.disable()  # a GPU's memory does not wait for the collector
    try:
        work.run(stop_after=2)
        alive = [one() for one in made if one() is not None]
    finally:
        gc.enable()
    assert made
    assert not alive
