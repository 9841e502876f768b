"""Runs that invert at several sizes of the model's input."""

from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion import InversionConfig, MaskInverter
from napari_maskinversion.base.errors import NotEnoughMemoryError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.base.steps import drive
from napari_maskinversion.engine.models import backbone
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.pipeline.encoded_windows import EncodedWindows
from napari_maskinversion.pipeline.explaining import Explainer, Seen
from napari_maskinversion.pipeline.live import LiveRun
from napari_maskinversion.pipeline.preflight import preflight
from napari_maskinversion.pipeline.run import PlaneTask, run, run_planes
from napari_maskinversion.results.run_info import info_from_json, info_to_json
from tests.scenes import demo_model, label_image, picture, regions

QUICK = InversionConfig(steps=2)


def embeddings(multi_scale, encoded=None):
    task = PlaneTask(source=ArrayPlane(picture()), regions=regions(3))
    how = {"encoded": encoded, "multi_scale": multi_scale}
    return drive(run_planes(demo_model(), [task], None, QUICK, **how)).embeddings


def test_a_window_that_is_kept_at_one_size_is_encoded_again_for_several():
    encoded = EncodedWindows()
    one, several = embeddings("off", encoded), embeddings("on", encoded)
    assert len(encoded) == 2
    np.testing.assert_allclose(one, embeddings("off"), atol=1e-5)
    np.testing.assert_allclose(several, embeddings("on"), atol=1e-5)
    assert np.abs(one - several).max() > 1e-3


def test_a_size_that_no_machine_could_hold_is_refused_before_work_starts(monkeypatch):
    # Room for the attention among the tokens of 128 px, not of 160 px.
    monkeypatch.setattr(backbone, "total_memory", lambda device: 4 * (144 // 8) ** 4)
    with pytest.raises(NotEnoughMemoryError, match="A resolution of 160 px needs more"):
        next(run(demo_model(), picture(), regions(1), None, QUICK, multi_scale="on"))
    next(run(demo_model(), picture(), regions(1), None, QUICK, multi_scale="off"))


def test_a_run_needs_the_memory_of_all_sizes():
    asked = {"device": "cpu", "architecture": "ViT-B-16", "resolution": 448, "patch": 16}
    one = preflight(**asked, at_once=1).needed
    several = preflight(**asked, at_once=1, multi_scale=True).needed
    parts = [preflight(**asked | {"resolution": side}, at_once=1).needed for side in (336, 560)]
    assert several == one + sum(parts)


def test_results_from_before_there_were_several_sizes_are_of_one():
    results = drive(run(demo_model(), picture(), regions(1), None, QUICK, multi_scale="off"))
    values = info_to_json(results.info)
    del values["settings"]["multi_scale"]
    info = info_from_json(values)
    assert info.settings.multi_scale == "off"
    seen = Seen(source=ArrayPlane(picture()), result=results.regions[0], info=info)
    seen = replace(seen, region=regions(1)[0])
    course = drive(Explainer(demo_model()).course(seen))
    assert course.same_image
    assert course.losses[-1] == pytest.approx(results.regions[0].losses[-1], abs=1e-4)


@pytest.mark.parametrize("most", [2, 1])
def test_where_memory_is_short_fewer_regions_are_inverted_at_once(monkeypatch, most):
    undisturbed = drive(run(demo_model(), picture(), regions(4), None, QUICK))
    invert, refused = MaskInverter.invert_steps, []

    def invert_steps(self, masks, *given, **options):
        work = invert(self, masks, *given, **options)
        yield next(work)
        if len(masks) > most and self.input_size[0] > 120:  # the largest size alone
            refused.append(len(masks))
            raise MemoryError
        return (yield from work)

    monkeypatch.setattr(MaskInverter, "invert_steps", invert_steps)
    work = run(demo_model(), picture(), regions(4), None, QUICK, chunk_size=4)
    results = drive(work)
    assert refused == [4, 2][: 3 - most]
    np.testing.assert_allclose(results.embeddings, undisturbed.embeddings, atol=1e-5)
    assert {region.window.resolution for region in results.regions} == {128}


def test_where_a_size_does_not_fit_all_are_smaller(monkeypatch):
    encode = MaskInverter.set_image_steps

    def set_image_steps(self, image, *, resolution, **options):
        if resolution > 100:
            raise MemoryError
        return (yield from encode(self, image, resolution=resolution, **options))

    monkeypatch.setattr(MaskInverter, "set_image_steps", set_image_steps)
    results = drive(run(demo_model(), picture(), regions(2), None, QUICK))
    assert {region.window.resolution for region in results.regions} == {64}
    small = drive(run(demo_model(), picture(), regions(2), None, QUICK, resolution=64))
    np.testing.assert_allclose(results.embeddings, small.embeddings, atol=1e-5)


def test_live_mode_inverts_what_changed_and_keeps_the_image_encoded_at_all_sizes(monkeypatch):
    live, plane = LiveRun(demo_model(), QUICK), ArrayPlane(picture())
    drive(live.update([PlaneTask(source=plane, regions=regions(3))], None))
    monkeypatch.setattr(MaskInverter, "set_image_steps", None)  # were it encoded again: an error
    labels = label_image(3)
    labels[tuple(np.argwhere(labels == 0)[-1])] = 9
    changed = Regions.from_labels(labels)
    results = drive(live.update([PlaneTask(source=plane, regions=changed)], None))
    assert live.inverted == 4
    assert results.ids == [1, 2, 3, 9]
