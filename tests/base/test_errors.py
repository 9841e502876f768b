"""Texts of errors."""

from napari_maskinversion.base.errors import InputError


def test_a_text_that_quotes_a_very_long_value_is_shortened_in_its_middle():
    text = str(InputError(f"image.zarr has axes {['a'] * 2000}; name each axis."))
    assert text.startswith("image.zarr has axes ['a', 'a'")
    assert text.endswith("; name each axis.")
    assert len(text) < 2000
