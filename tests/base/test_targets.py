"""What a command will write is checked before its work."""

from pathlib import Path

import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.targets import check_folder, check_targets, mentions_us


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_noticed_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: Path("/dev/full").open("wb"))  # noqa: SIM115
    with pytest.raises(InputError, match=r"cannot be written to .No space left on device"):
        check_folder(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_will_not_do_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="cannot be written to"):
        check_targets([file / "below" / "a.csv"], overwrite=False)
    check_targets([tmp_path / "new" / "deep" / "a.csv"], overwrite=False)
    assert not (tmp_path / "new").exists()


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    # Simulated: an administrator may write everywhere.
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(InputError, match="cannot be written to .Permission denied"):
        check_targets([tmp_path / "a.csv"], overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_are_replaced_only_where_asked(tmp_path):
    there = tmp_path / "a.csv"
    there.write_text("mine")
    wanted = [there, tmp_path / "b.csv"]
    with pytest.raises(InputError, match=r"already has a\.csv; choose another folder, or"):
        check_targets(wanted, overwrite=False)
    check_targets(wanted, overwrite=True)
    check_targets(wanted, overwrite=False, is_ours=lambda file: file == there)
    assert there.read_text() == "mine"


def test_a_link_to_nothing_is_there(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"already has a\.csv"):
        check_targets([tmp_path / "a.csv"], overwrite=False)
    check_targets([tmp_path / "a.csv"], overwrite=True)


@pytest.mark.parametrize("link", ["itself", "symbolic", "hard"])
def test_an_input_is_never_replaced(tmp_path, link):
    image, target = tmp_path / "image.png", tmp_path / "out.png"
    image.write_text("pixels")
    if link == "itself":
        target = image
    elif link == "symbolic":
        target.symlink_to(image)
    else:
        target.hardlink_to(image)
    with pytest.raises(InputError, match="would replace .*, which is an input"):
        check_targets([target], overwrite=True, inputs=[image], is_ours=lambda _: True)


def test_files_in_a_folder_of_inputs_are_inputs(tmp_path):
    image, figures = tmp_path / "a.png", tmp_path / "figures.json"
    image.write_text("pixels")
    figures.write_text("ours")
    with pytest.raises(InputError, match=r"a\.png would replace a file of .*, which is an input"):
        check_targets([image], overwrite=True, inputs=[tmp_path])
    check_targets([tmp_path / "new.png"], overwrite=False, inputs=[tmp_path])
    check_targets([figures], overwrite=False, inputs=[tmp_path], is_ours=lambda _: True)


def test_a_folder_of_the_name_of_a_file_is_refused(tmp_path):
    (tmp_path / "regions.csv").mkdir()
    with pytest.raises(InputError, match=r"regions\.csv is a folder"):
        check_targets([tmp_path / "regions.csv"], overwrite=True)


def test_our_files_are_told_from_others(tmp_path):
    ours, other = tmp_path / "ours.json", tmp_path / "other.json"
    ours.write_text('{"software": {"napari-maskinversion": "0.2"}}')
    other.write_text(" " * 5000 + "napari-maskinversion")
    assert mentions_us(ours)
    assert not mentions_us(other)
    assert not mentions_us(tmp_path / "none.json")
