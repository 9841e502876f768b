"""Parts of texts that many messages have."""

from napari_maskinversion.base.wording import short_names


def test_names_of_images_are_short_where_they_tell_them_apart():
    images = ("/a/x.png", "/b/x.png", "/b/y.png", "/b/y.png")
    assert list(short_names(images).values()) == ["a/x.png", "b/x.png", "y.png"]
