"""Files of other programs, written and read."""

import json

import pytest

from napari_maskinversion.regions.annotations.annotation_reading import read_annotations


@pytest.fixture
def read(tmp_path, request):
    """Write a file as ``theirs`` and read the regions of an image of the module's ``SHAPE``."""

    def read(content, shape=request.module.SHAPE, image="a.png", **more):
        text = content if isinstance(content, str) else json.dumps(content)
        path = tmp_path / ("theirs.xml" if text.startswith("<") else "theirs.json")
        path.write_text(text, encoding="utf-8")
        return read_annotations(path, shape, image=image, **more)

    return read
