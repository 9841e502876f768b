"""What a run needs is copied from the viewer, or refused in words: without a window."""

from contextlib import suppress

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_maskinversion.app.requests.preparing import make_request
from napari_maskinversion.app.session import Session
from napari_maskinversion.base.errors import MaskInversionError
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline.run import check_tasks

SQUARE = np.array([(4, 4), (4, 9), (9, 9), (9, 4)], dtype=float)


class Work:
    """A viewer with an image and regions, and a session that has chosen them and two words."""

    def __init__(self, image, labels):
        self.viewer, self.session = ViewerModel(), Session()
        self.photo = self.viewer.add_image(image, name="photo")
        self.cells = self.viewer.add_labels(labels, name="cells")
        self.session.choose(image=self.photo, regions=self.cells)
        self.session.change_words(Vocabulary(("cat", "dog")))

    def request(self):
        return make_request(self.viewer, self.session)

    def check(self):
        """Check what a run checks before it loads a model."""
        run_input = self.request().input
        tasks = run_input.tasks()
        run_input.left_out(tasks)
        check_tasks(tasks)

    def stack(self, **regions):
        """Choose a stack of five planes, and other regions for it."""
        stack = self.viewer.add_image(np.random.rand(5, 160, 200), name="stack")
        self.session.choose(image=stack, regions=self.cells)
        for name, data in regions.items():
            add = self.viewer.add_labels if isinstance(data, np.ndarray) else self.viewer.add_shapes
            self.session.choose(regions=add(data, name=name))


@pytest.fixture
def work(scene):
    image, labels = scene
    return Work(image.copy(), labels.copy())


def empty_shapes(work):
    work.session.choose(regions=work.viewer.add_shapes(None, ndim=2, name="empty"))


def no_pixels(work):
    with suppress(ValueError):  # the viewer's own thumbnail cannot be made; the layer has the data
        work.photo.data = np.zeros((0, 200, 3), np.uint8)


def shapes_of_other_planes(work):
    work.stack(deep=[np.insert(SQUARE, 0, 1, axis=1)])
    work.viewer.dims.set_point(0, 3)


def shapes_across_planes(work):
    work.stack(tilted=[np.column_stack([[0, 1, 2, 3], SQUARE])])
    work.viewer.dims.set_point(0, 1)


def flat_regions_of_a_stack_seen_from_the_side(work):
    work.stack()
    work.viewer.dims.order = (1, 0, 2)


def a_stack_of_labels_shorter_than_the_image(work):
    work.stack(short=np.ones((2, 160, 200), int))
    work.viewer.dims.set_point(0, 4)


def shapes_wholly_outside(work):
    shapes = work.viewer.add_shapes([SQUARE, SQUARE + 1000], name="far")
    work.session.choose(regions=shapes)


def singular_affine(work):
    # Nor can the viewer draw it, or give its sliders a range.
    with suppress(np.linalg.LinAlgError, OverflowError):
        work.cells.affine = np.array([[1, 2, 0], [2, 4, 0], [0, 0, 1.0]])


def nothing_finite(work):
    image = work.viewer.add_image(np.full((160, 200), np.nan))
    work.session.choose(image=image, regions=work.cells)


BAD = (
    (lambda work: work.session.change_words(None), "no words"),
    (lambda work: setattr(work.session.run, "image", None), "Open an image first"),
    (lambda work: setattr(work.session.run, "regions", None), "no regions"),
    (lambda work: work.cells.data.fill(0), "no regions"),
    (lambda work: work.photo.data.fill(7), "same value"),
    (lambda work: work.session.run.change_settings({"model": "ViT-B-16/openai"}), "press Fetch"),
    (nothing_finite, "no finite value"),
    (empty_shapes, "no regions"),
    (no_pixels, "no pixels"),
    (shapes_of_other_planes, "no regions"),
    (shapes_across_planes, "no regions"),
    (flat_regions_of_a_stack_seen_from_the_side, "no extent along a displayed axis"),
    (lambda work: setattr(work.cells, "translate", (999, 0)), "50 regions lie outside the image"),
    (shapes_wholly_outside, "1 region lies outside the image (shape 1)"),
    (a_stack_of_labels_shorter_than_the_image, "lies outside the layer 'short'"),
    (singular_affine, "singular affine"),
)


@pytest.mark.parametrize(("spoil", "says"), BAD)
def test_what_cannot_be_run_is_refused_in_one_line(work, spoil, says):
    spoil(work)
    with pytest.raises(MaskInversionError) as refused:
        work.check()
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_that_are_not_finite_are_shown_as_black_and_white(work):
    data = np.random.rand(160, 200)
    data[3, 3], data[4, 4] = np.nan, np.inf
    image = work.viewer.add_image(data, contrast_limits=(0, 1))
    work.session.choose(image=image, regions=work.cells)
    (task,) = work.request().input.tasks()
    seen = task.source.read(0, (0, 0, 160, 200))
    assert (seen[3, 3], seen[4, 4]) == (0, 1)


def test_a_shape_without_size_is_the_pixel_it_lies_on(work):
    work.session.choose(regions=work.viewer.add_shapes([np.tile([20.2, 30.4], (4, 1))]))
    (task,) = work.request().input.tasks()
    assert [region.bbox for region in task.regions] == [(20, 30, 21, 31)]


def test_what_is_painted_after_a_run_was_asked_for_does_not_count(work):
    request = work.request()
    work.cells.data[:] = 1
    (task,) = request.input.tasks()
    assert len(task.regions) == 50
