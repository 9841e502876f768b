"""Windows: every region in one, near enough to be seen, and its heatmap on it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ConfigError, InputError
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.images.plane_source import ArrayPlane, Level, read_reduced
from napari_maskinversion.images.windows import WindowConfig, plan_windows, regions_in
from napari_maskinversion.results.results import PlacedHeatmap, paste
from tests.scenes import demo_model, picture, run

PLANE = (3000, 4001)
LEVELS = [Level(PLANE), Level((1500, 2001), (2, 4001 / 2001)), Level((750, 1001), (4, 4001 / 1001))]


@st.composite
def some_regions(draw):
    regions = []
    for number in range(draw(st.integers(1, 12))):
        h, w = draw(st.integers(1, 900)), draw(st.integers(1, 900))
        y, x = draw(st.integers(0, PLANE[0] - h)), draw(st.integers(0, PLANE[1] - w))
        regions.append(Region(number + 1, (y, x, y + h, x + w), np.ones((h, w), bool)))
    return Regions(PLANE, regions)


configs = st.one_of(
    st.builds(WindowConfig, mode=st.just("auto"), context=st.floats(1, 5)),
    st.builds(WindowConfig, mode=st.just("fixed"), side=st.integers(50, 2000)),
    st.just(WindowConfig(mode="whole")),
)


@given(some_regions(), configs, st.sampled_from([(96, 8, None), (448, 16, 224)]))
@settings(deadline=None, max_examples=60)
def test_every_region_lies_in_one_window_of_the_plane_and_keeps_its_area(regions, config, model):
    resolution, patch, native = model
    windows = plan_windows(
        regions, LEVELS, resolution=resolution, patch=patch, config=config, native=native
    )
    members = sorted(member for window in windows for member in window.members)
    assert members == list(range(len(regions)))
    for window in windows:
        y0, x0, y1, x1 = window.box
        height, width = window.pixels
        step = (y1 - y0) / height, (x1 - x0) / width
        assert y0 >= 0
        assert x0 >= 0
        assert y1 < PLANE[0] + step[0]
        assert x1 < PLANE[1] + step[1]
        # Never coarser than the model's input, unless there is no more to be had.
        if not window.whole:
            assert max(height, width) >= window.resolution or max(step) == 1
            assert window.resolution in (resolution, native or resolution)
        for member, local in zip(window.members, regions_in(window, regions), strict=True):
            a, b, c, d = regions[member].bbox
            assert y0 <= a + 1e-6
            assert x0 <= b + 1e-6
            assert c <= y1 + 1e-6
            assert d <= x1 + 1e-6
            area = local.area * step[0] * step[1]
            assert area == pytest.approx(regions[member].area, rel=0.01, abs=1.5 * step[0] ** 2)


def test_neighbours_of_similar_size_share_a_window_and_a_giant_has_its_own():
    boxes = [(100, 100, 130, 130), (100, 140, 130, 170), (2000, 2000, 2040, 2040)]
    boxes.append((0, 0, 2500, 2500))
    regions = Regions(
        PLANE,
        [Region(i, b, np.ones((b[2] - b[0], b[3] - b[1]), bool)) for i, b in enumerate(boxes)],
    )
    windows = plan_windows(regions, LEVELS, resolution=96, patch=8, config=WindowConfig())
    assert sorted(window.members for window in windows) == [(0, 1), (2,), (3,)]


@pytest.mark.parametrize(
    ("sides", "native", "seen"),
    [
        ([160, 160], 224, 224),  # 5 tokens of 16 px in a window of 512 px at 224
        ([160, 150], 224, 448),
        ([160, 160], None, 448),
    ],
)
def test_a_window_whose_regions_have_five_tokens_is_seen_at_the_models_own_resolution(
    sides, native, seen
):
    boxes = [(100, x, 100 + side, x + side) for x, side in zip((100, 300), sides, strict=True)]
    regions = [Region(i, b, np.ones((b[2] - b[0],) * 2, bool)) for i, b in enumerate(boxes)]
    planned = {"resolution": 448, "patch": 16, "native": native}
    (window,) = plan_windows(Regions(PLANE, regions), LEVELS, **planned)
    assert window.resolution == seen
    fixed = WindowConfig(mode="fixed", side=512)
    (window,) = plan_windows(Regions(PLANE, regions), LEVELS, **planned, config=fixed)
    assert window.resolution == 448


def test_small_planes_are_seen_whole():
    regions = Regions((80, 90), [Region(1, (5, 5, 8, 8), np.ones((3, 3), bool))])
    windows = plan_windows(regions, [Level((80, 90))], resolution=96, patch=8)
    assert [window.whole for window in windows] == [True]


def test_a_plane_somewhat_larger_is_seen_whole_with_regions_of_three_tokens_and_closely_with_less():
    # 384 px seen at 96: a token of 8 px is 32 px of the plane.
    large, small = (100, 100, 200, 200), (300, 300, 380, 380)
    regions = Regions(
        (384, 384),
        [Region(i, b, np.ones((b[2] - b[0],) * 2, bool)) for i, b in enumerate((large, small))],
    )
    windows = plan_windows(regions, [Level((384, 384))], resolution=96, patch=8)
    assert [(window.members, window.whole) for window in windows] == [((0,), True), ((1,), False)]


@given(st.integers(1, 7), st.integers(3, 50), st.integers(3, 50))
@settings(deadline=None)
def test_a_plane_read_smaller_is_its_block_means(reduce, height, width):
    image = picture(height, width).astype(np.float32) / 255
    rows, columns = -(-height // reduce) * reduce, -(-width // reduce) * reduce
    pixels = read_reduced(ArrayPlane(image), 0, (0, 0, rows, columns), reduce)
    padded = np.full((rows, columns, 3), np.nan, np.float32)
    padded[:height, :width] = image
    blocks = padded.reshape(rows // reduce, reduce, columns // reduce, reduce, 3)
    np.testing.assert_allclose(pixels, np.nanmean(blocks, axis=(1, 3)), atol=1e-5)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(8, 40))
@settings(deadline=None)
def test_a_window_heatmap_is_pasted_where_it_lies(y, x, side):
    values = np.zeros((10, 10), np.float32)
    values[4:6, 4:6] = 1
    box = (float(y), float(x), float(y + side), float(x + side))
    full = paste(PlacedHeatmap(values, box), (100, 100), (100, 100))
    rows, columns = np.nonzero(full > 0.5)
    token = side / 10
    assert abs(rows.mean() + 0.5 - (y + side / 2)) <= token / 2 + 0.5
    assert abs(columns.mean() + 0.5 - (x + side / 2)) <= token / 2 + 0.5
    assert full[: max(0, y)].sum() == 0


def test_a_small_region_of_a_large_image_is_seen_closely_and_a_giant_heatmap_refused():
    image = np.tile(picture(200, 200), (10, 10, 1))
    mask = np.ones((40, 40), bool)
    regions = Regions((2000, 2000), [Region(5, (1000, 700, 1040, 740), mask)])
    results = run(
        demo_model(), image, regions, None, InversionConfig(steps=2), window=WindowConfig()
    )
    region = results.regions[0]
    assert not region.window.whole
    assert not region.low_resolution
    placed = results.window_heatmap(0)
    assert placed.box[0] <= 1000
    assert placed.box[2] >= 1040
    assert max(placed.values.shape) < 200
    assert region.centroid == (1019.5, 719.5)
    with pytest.raises(InputError, match="window_heatmap"):
        results.heatmap(0, (20000, 20000))


@pytest.mark.parametrize("text", ["0", "nan", "big", "-5"])
def test_a_window_that_makes_no_sense_is_refused(text):
    with pytest.raises(ConfigError):
        WindowConfig.parse(text)
