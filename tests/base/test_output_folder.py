"""An output folder is checked before the work."""

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.output_folder import check_folder


def test_a_folder_that_will_not_do_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="cannot be written to"):
        check_folder(file / "below", ["a.csv"], overwrite=False)
    (tmp_path / "a.csv").write_text("mine")
    with pytest.raises(InputError, match="already has a.csv"):
        check_folder(tmp_path, ["a.csv", "b.csv"], overwrite=False)
    check_folder(tmp_path, ["a.csv"], overwrite=True)
    check_folder(tmp_path / "new" / "deep", ["a.csv"], overwrite=False)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    # Simulated: an administrator may write everywhere.
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(InputError, match="cannot be written to .Permission denied"):
        check_folder(tmp_path, ["a.csv"], overwrite=False)
    assert list(tmp_path.iterdir()) == []
