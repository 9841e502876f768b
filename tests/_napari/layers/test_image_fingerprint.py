"""Pixels are told apart by what is seen of them."""

import numpy as np
from napari.components import ViewerModel

from napari_maskinversion._napari.layers.tasks import ImageFingerprint
from napari_maskinversion._napari.run_requests.preparing import prepare
from napari_maskinversion._napari.session import Session
from tests.scenes import label_image, picture


def test_a_renamed_image_is_the_same_and_a_brighter_one_is_not():
    viewer, session = ViewerModel(), Session()
    photo = viewer.add_image(picture(40, 40)[:, :, 0], name="photo")
    cells = viewer.add_labels(label_image(2, 40, 40).astype(np.int32), name="cells")
    session.choose(image=photo, regions=cells)
    before = ImageFingerprint.of(prepare(viewer, session))
    photo.name, cells.name = "photo 1", "nuclei"
    assert ImageFingerprint.of(prepare(viewer, session)) == before
    photo.contrast_limits = (0, 100)
    assert ImageFingerprint.of(prepare(viewer, session)) != before
