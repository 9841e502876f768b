"""One reader for files of regions of any kind."""

import json

import numpy as np
import pytest
import skimage.io

from napari_maskinversion import Regions, read_regions
from napari_maskinversion.base.errors import InputError, MaskShapeError
from tests.scenes import label_image


def coco(folder, name, **more):
    """Two boxes as COCO."""
    boxes = [
        {"id": n, "image_id": 1, "category_id": 1, "bbox": [10 * n, 5, 4, 3], "area": 12, **more}
        for n in (1, 2)
    ]
    content = {
        "images": [{"id": 1, "file_name": "image.png", "height": 60, "width": 80}],
        "categories": [{"id": 1, "name": "car"}],
        "annotations": boxes,
    }
    (folder / name).write_text(json.dumps(content))
    return folder / name


def test_label_images_and_annotations_are_read(tmp_path):
    skimage.io.imsave(tmp_path / "masks.png", label_image(5), check_contrast=False)
    regions = read_regions(str(tmp_path / "masks.png"), (60, 80, 3))
    expected = Regions.from_labels(label_image(5))
    assert regions.ids == expected.ids
    for index in range(5):
        np.testing.assert_array_equal(regions.full_mask(index), expected.full_mask(index))
    boxes = read_regions(coco(tmp_path, "boxes.json"), (60, 80))
    assert [region.bbox for region in boxes] == [(5, 10, 8, 14), (5, 20, 8, 24)]


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(MaskShapeError):
        read_regions(coco(tmp_path, "boxes.json"), (61, 80))
    with pytest.raises(InputError, match="missing.png"):
        read_regions(tmp_path / "missing.png", (60, 80))
