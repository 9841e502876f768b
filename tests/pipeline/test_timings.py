"""What earlier runs took: kept for the next one, and for no other model."""

import pytest

from napari_maskinversion.pipeline.timings import Speed, forget, known_speed, remember


@pytest.fixture(autouse=True)
def nothing_known():
    forget()
    yield
    forget()


def note(encoding=2.0, region=1.1, *, last=True):
    remember(
        "m", "cpu", resolution=96, steps=10, encoding=encoding, region=region, last=last
    )  # fmt: skip


def test_a_finished_run_is_known_to_the_next_process():
    assert known_speed("m", "cpu", 96) is None
    note()
    forget()
    assert known_speed("m", "cpu", 96) == Speed(2.0, pytest.approx(0.1))


@pytest.mark.parametrize("other", [("n", "cpu", 96), ("m", "cuda", 96), ("m", "cpu", 448)])
def test_other_models_devices_and_resolutions_are_not_guessed_from_it(other):
    note()
    assert known_speed(*other) is None


def test_a_run_counts_twice_as_much_as_the_one_before():
    note()
    note(encoding=5.0, region=4.4)
    speed = known_speed("m", "cpu", 96)
    assert speed.encoding == pytest.approx((2 * 5.0 + 2.0) / 3)
    assert speed.step == pytest.approx((2 * 0.4 + 0.1) / 3)


def test_regions_count_by_their_number_and_a_warm_up_hardly_at_all():
    known = {"resolution": 96, "steps": 9}
    remember(
        "m", "cpu", **known, encoding=9.0, region=10.0, last=False, regions=16, warming_up=True
    )
    remember("m", "cpu", **known, encoding=1.0, region=2.0, last=False, regions=1)
    remember("m", "cpu", **known, encoding=1.0, region=0.5, last=True, regions=15)
    speed = known_speed("m", "cpu", 96)
    assert speed.encoding == pytest.approx((0.05 * 9 + 1 + 1) / 2.05)
    assert speed.step == pytest.approx((0.05 * 16 * 10 + 2 + 15 * 0.5) / 10 / (0.05 * 16 + 16))


def test_a_run_of_many_regions_is_known_to_the_next_process():
    many = {"resolution": 96, "steps": 100, "regions": 25_000}
    remember("m", "cpu", **many, encoding=2.0, region=1.01, last=True)
    forget()
    assert known_speed("m", "cpu", 96) == Speed(2.0, pytest.approx(0.01))


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", '{"encoding": 1}', '{"encoding": NaN, "step": 1}'),
        '{"encoding": 1, "step": 1, "steps": Infinity}',
    ],
)
def test_a_damaged_note_is_no_note(own_cache_folder, content):
    note()
    (path,) = (own_cache_folder / "speed").glob("*.json")
    path.write_text(content)
    forget()
    assert known_speed("m", "cpu", 96) is None


def test_a_folder_that_cannot_be_written_costs_nothing(own_cache_folder):
    (own_cache_folder / "speed").write_text("a file where the folder should be")
    note()
    assert known_speed("m", "cpu", 96) is not None
