"""Numbers to what is seen: limits, NaN, channels that add up, colours."""

import dask.array as da
import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.images.channels import (
    Channel,
    ChannelPlane,
    ColourPlane,
    as_source,
    auto_limits,
    default_colours,
    scale_to_unit,
)
from napari_maskinversion.images.lazy_plane import LazyPlane
from napari_maskinversion.images.plane_source import ArrayPlane


def grey(values, **how):
    return ChannelPlane([Channel(plane=LazyPlane([values]), **how)])


def colours(values):
    return ColourPlane(LazyPlane([values], samples=True))


def whole(source):
    return source.read(0, (0, 0, *source.shape))


def test_what_is_not_finite_is_black_or_white_and_does_not_move_the_limits():
    values = np.linspace(100, 300, 900, dtype=np.float32).reshape(30, 30)
    clean = auto_limits(LazyPlane([values]))
    values[0, :3] = np.nan, np.inf, -np.inf
    source = grey(values)
    seen = whole(source)
    assert source.limits[0] == pytest.approx(clean, rel=0.01)
    assert list(seen[0, :3]) == [0, 1, 0]
    assert seen.dtype == np.float32
    assert np.isfinite(seen).all()
    assert seen.min() == 0
    assert seen.max() == 1
    for array in (values, np.where(np.isnan(values), values, values / 300)):
        as_source(array).check()
        assert whole(as_source(array))[0, 0] == 0


def test_a_hot_pixel_does_not_make_a_colour_picture_dark():
    values = np.full((60, 80, 3), 4000, np.uint16)
    values[5:9], values[0, 0] = 100, (65535, 0, 0)
    np.testing.assert_allclose(whole(colours(values))[20, 20], 4000 / 4095, rtol=1e-5)


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (1000, 1400, np.uint16),
        (-2_000_000_000, 2_000_000_000, np.int32),
        (2_000_000_000, 2_000_000_100, np.int32),  # float32 has steps of 128 there
        (0.25, 70.5, np.float64),
        (-100, 100, np.int8),
        (-5, 5, np.float16),
    ],
)
def test_numbers_without_a_range_of_their_own_are_stretched_over_it(low, high, kind):
    values = np.linspace(low, high, 10_000).astype(kind).reshape(100, 100)
    source = grey(values)
    seen = whole(source)
    assert source.limits[0] == pytest.approx(np.percentile(values, (0.1, 99.9)))
    expected = (np.arange(10_000) / 9999 - 0.001) / 0.998
    np.testing.assert_allclose(seen.ravel(), np.clip(expected, 0, 1), atol=0.012)


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        (np.array([[10, 40]], np.uint8), (0, 255)),
        (np.array([[False, True]]), (0, 1)),
        (np.array([[0.2, 0.4]], np.float32), (0, 1)),
    ],
)
def test_numbers_that_have_a_range_keep_it(values, limits):
    source = grey(values)
    assert source.limits == (limits,)
    np.testing.assert_allclose(
        np.asarray(whole(source), float) * (255 if values.dtype != np.uint8 else 1),
        np.asarray(values, float) * (255 if values.dtype != np.uint8 else 1),
        rtol=1e-6,
    )


def test_a_few_bright_pixels_on_background_are_seen():
    values = np.zeros((200, 200), np.uint16)
    values[3, 3] = 900
    assert grey(values).limits == ((0, 900),)


def test_limits_and_gamma_are_those_asked_for():
    seen = whole(grey(np.array([[0, 10, 20, 30]], np.uint8), limits=(10, 30), gamma=2))
    np.testing.assert_allclose(seen, [[0, 0, 0.25, 1]], atol=1e-6)
    assert scale_to_unit(np.array([np.nan]), (-5, 5))[0] == 0


SAME = "same value"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (grey(np.full((9, 9), 7, np.uint16)), SAME),
        (grey(np.full((9, 9), np.nan)), "no finite value"),
        (grey(np.full((9, 9), 1j)), "complex"),
        (colours(np.full((9, 9, 3), (255, 0, 0), np.uint8)), SAME),
        (ArrayPlane(np.full((9, 9), 7, np.uint8)), SAME),
        (ArrayPlane(np.full((9, 9, 3), (255, 0, 0), np.uint8)), SAME),
    ],
)
def test_a_plane_with_nothing_to_see_is_refused(source, says):
    with pytest.raises(InputError, match=says):
        source.check()


@pytest.mark.parametrize(
    "source",
    [
        grey(np.eye(9, dtype=bool)),
        grey(np.where(np.eye(9) > 0, np.nan, np.arange(9.0))),
        colours((np.eye(9) * 200).astype(np.uint8)[..., None] * np.ones(3, np.uint8)),
        ArrayPlane(np.eye(9)),
    ],
)
def test_a_plane_with_something_to_see_passes(source):
    source.check()


def test_values_only_between_the_patches_of_a_large_plane_are_found():
    plane = da.full((3000, 3000), np.nan, chunks=1000)
    thin = da.from_array(np.linspace(1, 9, 3000)[None], chunks=1000)
    values = da.concatenate([thin, plane[1:]])
    assert auto_limits(LazyPlane([values])) == pytest.approx((1, 9), abs=0.1)


def test_limits_come_from_the_coarsest_level():
    class Unread(np.ndarray):
        def __getitem__(self, key):
            raise AssertionError("the full resolution was read")

    fine = np.zeros((64, 64), np.uint16).view(Unread)
    coarse = np.arange(256, dtype=np.uint16).reshape(16, 16) * 100
    low, high = auto_limits(LazyPlane([fine, coarse]))
    assert 0 <= low < high <= 25_500


def test_channels_add_up_in_their_colours_and_stop_at_white():
    red, blue = np.zeros((4, 5), np.uint8), np.zeros((4, 5), np.uint8)
    red[0], blue[:, 0] = 255, 51
    both = ChannelPlane(
        [
            Channel(plane=LazyPlane([red]), colour=(1, 0, 0)),
            Channel(plane=LazyPlane([blue]), colour=(0.5, 0, 1), limits=(0, 51)),
        ]
    )
    seen = whole(both)
    np.testing.assert_allclose(seen[0, 0], [1, 0, 1], atol=1e-6)  # red is not 1.5
    np.testing.assert_allclose(seen[0, 1], [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(seen[1, 0], [0.5, 0, 1], atol=1e-6)
    np.testing.assert_allclose(seen[1, 1], [0, 0, 0], atol=1e-6)


def test_two_half_bright_channels_of_one_colour_are_bright_together():
    half = np.array([[0, 102, 255]], np.uint8)
    channel = Channel(plane=LazyPlane([half]), colour=(1, 0, 0), limits=(0, 255))
    np.testing.assert_allclose(
        whole(ChannelPlane([channel, channel]))[0, 1], [0.8, 0, 0], atol=1e-6
    )


def test_an_empty_channel_among_others_is_black_and_all_empty_are_refused():
    full, empty = np.arange(20, dtype=np.uint16).reshape(4, 5), np.zeros((4, 5), np.uint16)
    first, second = default_colours(2)
    pair = ChannelPlane(
        [
            Channel(plane=LazyPlane([full]), colour=first),
            Channel(plane=LazyPlane([empty]), colour=second),
        ]
    )
    pair.check()
    assert whole(pair)[..., 1].max() == 1  # green is the first of two
    assert whole(pair)[..., [0, 2]].max() == 0
    with pytest.raises(InputError, match=SAME):
        ChannelPlane([Channel(plane=LazyPlane([empty]), colour=first)] * 2).check()


@pytest.mark.parametrize(
    ("kind", "top"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1), (bool, 1)]
)
def test_colours_keep_their_range_and_alpha_lies_over_black(kind, top):
    pixels = np.zeros((2, 2, 4), kind)
    pixels[0, :, 0], pixels[1, :, 1] = top, top
    pixels[..., 3] = [[top, 0], [top, top]]
    flat = whole(colours(pixels[..., :3]))
    laid = whole(colours(pixels))
    one = 255 if kind is np.uint8 else 1
    assert flat.shape == laid.shape == (2, 2, 3)
    np.testing.assert_allclose(flat[0, 1], [one, 0, 0], atol=1e-6)
    np.testing.assert_allclose(laid[0], [[one, 0, 0], [0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(laid[1], [[0, one, 0], [0, one, 0]], atol=1e-6)


def test_half_opaque_is_half_as_bright():
    pixel = np.array([[[200, 100, 0, 128]]], np.uint8)
    np.testing.assert_array_equal(whole(colours(pixel))[0, 0], [100, 50, 0])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ChannelPlane([]), "No channel"),
        (
            lambda: ChannelPlane(
                [Channel(plane=LazyPlane([np.eye(n)]), name=f"c{n}") for n in (3, 4)]
            ),
            "'c4' does not have the size of 'c3'",
        ),
        (lambda: ArrayPlane(np.zeros((4, 4, 5))), r"\(4, 4, 5\)"),
        (lambda: ArrayPlane(np.zeros((0, 4))), "no pixels"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()
