"""One region answered by several settings."""

import numpy as np
import pytest

from napari_maskinversion import InversionConfig, wrap_open_clip
from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.base.progress import tell
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.images.plane_source import ArrayPlane
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline import comparing
from napari_maskinversion.pipeline.comparing import answer, cosine, with_one_change
from napari_maskinversion.pipeline.run import PlaneTask, run_planes
from napari_maskinversion.pipeline.run_progress import Progress, RegionChunk
from napari_maskinversion.results.settings import RunSettings
from tests.engine.tiny import tiny_clip
from tests.listeners import collect
from tests.scenes import demo_model, picture, regions

WORDS = Vocabulary(("apple", "car", "house"))
NOW = RunSettings(inversion=InversionConfig(steps=6), window="whole")


def task(count=1, image=None):
    image = picture(120, 160) if image is None else image
    return PlaneTask(source=ArrayPlane(image), regions=regions(40, height=120, width=160)[:count])


def ask(setting, image=None, model=None):
    model = model or demo_model()
    news, answered = collect(lambda: answer(model, task(image=image), WORDS, setting))
    return [one.text for one in news if isinstance(one, Progress)], answered


def test_an_answer_is_that_of_a_run_and_shows_what_the_model_saw():
    said, answer = ask(NOW)
    assert "Region 1 of 1, step 6 of 6" in said
    assert answer.picture.dtype == np.uint8
    np.testing.assert_array_equal(answer.picture, picture(120, 160))
    assert answer.heatmap.shape == (120, 160)
    assert 0 < answer.seconds < 30
    grey = (picture(120, 160)[..., 0] / 255).astype(np.float32)
    _, of_grey = ask(NOW, image=grey)
    np.testing.assert_array_equal(of_grey.picture[..., 2], picture(120, 160)[..., 0])


@pytest.mark.parametrize(
    ("what", "value", "field"),
    [
        ("alpha", 5.0, "inversion"),
        ("steps", 4, "inversion"),
        ("learning_rate", 0.4, "inversion"),
        ("window", "auto", "window"),
    ],
)
def test_one_thing_is_changed_and_the_embeddings_tell(what, value, field):
    other = with_one_change(NOW, what, value)
    assert getattr(other, field) != getattr(NOW, field)
    assert [getattr(other, name) == getattr(NOW, name) for name in ("model", "method")] == [
        True
    ] * 2
    one, two = ask(NOW)[1], ask(other)[1]
    assert two.info.config == other.inversion
    assert cosine(one, one) == pytest.approx(1, abs=1e-5)
    assert cosine(one, two) < 0.99999


def test_embeddings_of_two_models_are_not_compared():
    other = wrap_open_clip(tiny_clip())
    assert cosine(ask(NOW)[1], ask(with_one_change(NOW, "model", "tiny"), model=other)[1]) is None


def test_any_method_can_be_asked_also_an_average():
    both = with_one_change(NOW, "method", "maskinversion+crop")
    answer = ask(both)[1]
    assert answer.info.method == both.method == Method("maskinversion+crop")
    parts = [ask(NOW)[1], ask(with_one_change(NOW, "method", "crop"))[1]]
    mean = sum(part.result.embedding for part in parts)
    expected = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(answer.result.embedding, expected, atol=1e-4)
    assert (answer.heatmap == 0).all()
    with pytest.raises(ConfigError, match="no method 'thrice'"):
        with_one_change(NOW, "method", "thrice")


def test_what_only_an_inversion_has_is_refused_where_nothing_is_inverted():
    assert (
        with_one_change(NOW.changed({"method": "maskinversion+crop"}), "steps", 3).inversion.steps
        == 3
    )
    crop = with_one_change(NOW, "method", "crop")
    for what, value in (("alpha", 5.0), ("learning_rate", 0.2), ("fast", True)):
        with pytest.raises(ConfigError, match=f"Crop does not invert.*{what.replace('_', ' ')}"):
            with_one_change(crop, what, value)
    assert with_one_change(crop, "window", "auto").window.mode == "auto"


def test_what_cannot_work_is_refused():
    with pytest.raises(ConfigError, match="steps"):
        with_one_change(NOW, "steps", 0)


def test_embedding_the_labels_does_not_count(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(comparing, "perf_counter", lambda: float(next(clock)))
    real = run_planes(demo_model(), [task()], WORDS, NOW)

    def clocked(*_, **how):
        for stage in ("encoding", "labels", "labels", "inverting"):
            tell(Progress(stage=stage, done=0, total=1, first=1, last=1, step=0, steps=1))
        tell(RegionChunk(real.regions, real))
        return real

    monkeypatch.setattr(comparing, "run_planes", clocked)
    # A second to each piece of news; what follows "labels" was spent on them.
    assert ask(NOW)[1].seconds == 4
