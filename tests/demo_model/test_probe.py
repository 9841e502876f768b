from __future__ import annotations

import torch

from napari_maskinversion.demo_model.probe import crops


def test_a_masked_crop_hides_what_is_not_the_object() -> None:
    image = torch.zeros(1, 3, 32, 32)
    image[0, 0, 8:16, 8:24] = 1  # red object
    image[0, 1, 12:16, 8:12] = 1  # green on it, outside the mask
    mask = torch.zeros(1, 1, 32, 32)
    mask[0, 0, 8:16, 8:24] = 1
    mask[0, 0, 12:16, 8:12] = 0
    plain, hidden = (crops(image, mask, 16, masked=m)[0, 0] for m in (False, True))
    assert plain.shape == (3, 16, 16)
    assert plain[1].max() > 0.9
    assert hidden[1].max() < 0.1
    assert hidden[0].mean() > 0.7
