"""Sets of files appear together, whatever ends the process that writes them."""

import os
import subprocess
import sys
import textwrap
from contextlib import nullcontext

import psutil
import pytest

from napari_maskinversion.base import atomic_files
from napari_maskinversion.base.atomic_files import (
    atomic_folder,
    atomic_path,
    recover,
    replacing,
    together,
)
from napari_maskinversion.base.errors import InputError

NAMES = ("a.csv", "b.tif", "c.json")

# Writes a set and ends at the given call of the operations that change a folder.
WRITER = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from napari_maskinversion.base.atomic_files import atomic_path, together

    folder, calls, overwrite = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
    left = calls

    def dying(real):
        def call(*args, **options):
            global left
            left -= 1
            if left < 0:
                os._exit(9)
            return real(*args, **options)

        return call

    for name in ("rename", "replace", "link", "unlink", "mkdir", "open", "rmdir"):
        setattr(os, name, dying(getattr(os, name)))
    with together(folder, overwrite=overwrite):
        for name in ("a.csv", "b.tif", "c.json"):
            with atomic_path(folder / name) as part:
                part.write_text("new")
    print("done")
    """
)


def write_until(folder, calls, *, overwrite):
    arguments = [sys.executable, "-c", WRITER, str(folder), str(calls), str(overwrite)]
    ended = subprocess.run(arguments, capture_output=True, text=True)
    assert ended.returncode in (0, 9), ended.stderr
    return ended.returncode == 0


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_set_is_whole_or_absent_wherever_its_writer_is_killed(tmp_path, overwrite):
    before = dict.fromkeys(NAMES, "old") if overwrite else {}
    after = dict.fromkeys(NAMES, "new")
    seen, ended, calls = [], False, 0
    while not ended:
        folder = tmp_path / str(calls)
        folder.mkdir()
        for name, text in before.items():
            (folder / name).write_text(text)
        ended = write_until(folder, calls, overwrite=overwrite)
        recover(folder)
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found in (before, after), calls
        seen.append(found == after)
        calls += 1
    assert calls > 15
    assert seen == sorted(seen)  # once committed, always finished
    assert 0 < sum(seen) < len(seen) - 5


# The same with a folder among the files.
FOLDER_WRITER = WRITER.replace("import atomic_path,", "import atomic_folder, atomic_path,").replace(
    'for name in ("a.csv", "b.tif", "c.json"):',
    """with atomic_folder(folder / "store.zarr") as part:
        (part / "new").write_text("new")
    for name in ("b.tif",):""",
)


def test_a_folder_in_a_set_is_whole_or_as_it_was_wherever_its_writer_is_killed(tmp_path):
    seen = set()
    for calls in range(200):
        folder = tmp_path / str(calls)
        (folder / "store.zarr").mkdir(parents=True)
        (folder / "store.zarr/old").write_text("old")
        (folder / "b.tif").write_text("old")
        code = subprocess.run(
            [sys.executable, "-c", FOLDER_WRITER, folder, str(calls), "True"]
        ).returncode
        recover(folder)
        state = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")))
        seen.add(state)
        if code == 0:
            break
        assert code == 9
    assert code == 0
    assert seen == {("b.tif", "store.zarr", f"store.zarr/{name}") for name in ("old", "new")}


def test_a_folder_whose_writing_fails_leaves_the_earlier_one(tmp_path):
    (tmp_path / "store.zarr").mkdir()
    (tmp_path / "store.zarr/old").touch()

    def write():
        with atomic_folder(tmp_path / "store.zarr") as part:
            (part / "new").touch()
            raise OSError("no room")

    with pytest.raises(InputError, match=r"store\.zarr could not be written \(no room\)"):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["store.zarr"]
    assert [path.name for path in (tmp_path / "store.zarr").iterdir()] == ["old"]


def test_files_of_running_processes_are_left_alone(tmp_path):
    with replacing(tmp_path / "mine.csv") as part, together(tmp_path) as files:
        recover(tmp_path)
        assert part.exists()
        assert files.place.exists()


def test_files_of_running_processes_are_left_alone_when_the_clock_is_set(tmp_path, monkeypatch):
    with replacing(tmp_path / "mine.csv") as part:
        monkeypatch.setattr(psutil.Process, "create_time", lambda process: 1e9)
        recover(tmp_path)
        assert part.exists()


def left_by_a_killed_process(folder):
    """The file that a process was writing into a folder when it was killed."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from napari_maskinversion.base.atomic_files import replacing\n"
        "with replacing(Path(sys.argv[1]) / 'a.csv'): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, folder]).returncode == 9
    (part,) = folder.iterdir()
    return part


def test_files_of_killed_processes_are_removed(tmp_path):
    left_by_a_killed_process(tmp_path)
    foreign = tmp_path / ".notes.part"
    foreign.write_text("of another program")
    assert len(list(tmp_path.iterdir())) == 2
    recover(tmp_path)
    assert list(tmp_path.iterdir()) == [foreign]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes")
def test_a_pipe_is_not_replaced(tmp_path):
    target = tmp_path / "a.csv"
    os.mkfifo(target)
    for block in (nullcontext, lambda: together(tmp_path)):
        with (
            pytest.raises(InputError, match=r"a\.csv is not a file"),
            block(),
            atomic_path(target) as part,
        ):
            part.write_text("new")
        assert list(tmp_path.iterdir()) == [target]
        assert target.is_fifo()


def test_files_of_another_machine_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "_host", lambda: "abcdef")
    with replacing(tmp_path / "a.csv") as part:
        name = part.name
        monkeypatch.undo()
        assert "abcdef" in name
        monkeypatch.setattr(atomic_files, "_start", lambda _: -1)
        recover(tmp_path)
        assert part.exists()


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr("os.link", lambda *_: exec("raise OSError(1, 'not here')"))
    foreign = tmp_path / "b.tif"

    def write():
        with together(tmp_path, overwrite=False, keep=True):
            for name in NAMES:
                with atomic_path(tmp_path / name) as part:
                    part.write_text("new")
            foreign.write_text("foreign")

    with pytest.raises(InputError, match=r"b\.tif has appeared since the start.*All files are in"):
        write()
    assert foreign.read_text() == "foreign"
    (kept,) = (path for path in tmp_path.iterdir() if path != foreign)
    assert {path.name: path.read_text() for path in kept.iterdir()} == dict.fromkeys(NAMES, "new")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_that_appears_at_the_last_moment_is_not_replaced(tmp_path, monkeypatch, links):
    """It appears between the check and the renaming, when another run ends."""
    if not links:
        monkeypatch.setattr("os.link", lambda *_: exec("raise OSError(1, 'not here')"))
    foreign, real = tmp_path / "b.tif", os.rename

    def renamed(source, target):
        if str(target).endswith(atomic_files.COMMIT_NEW):
            foreign.write_text("foreign")
        return real(source, target)

    monkeypatch.setattr("os.rename", renamed)

    def write():
        with together(tmp_path, overwrite=False):
            for name in NAMES:
                with atomic_path(tmp_path / name) as part:
                    part.write_text("new")

    with pytest.raises(InputError, match=r"b\.tif has appeared"):
        write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b.tif": "foreign"}


def test_a_long_name_is_written(tmp_path):
    target = tmp_path / ("n" * 250 + ".csv")
    with together(tmp_path), atomic_path(target) as part:
        part.write_text("new")
    assert target.read_text() == "new"


def test_a_link_with_the_name_of_a_killed_set_is_left_alone(tmp_path):
    """Its files would be moved into the folder."""
    (tmp_path / "place").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/mine.txt").write_text("mine")
    part = left_by_a_killed_process(tmp_path / "place")
    part.unlink()
    link = part.with_name(part.name.removesuffix(".part") + ".commit")
    link.symlink_to(tmp_path / "elsewhere")
    recover(tmp_path / "place")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["mine.txt"]
    assert link.is_symlink()


def test_a_folder_that_failed_is_deleted_also_if_threads_write_a_moment_longer(
    tmp_path, monkeypatch
):
    delete, left = atomic_files.shutil.rmtree, [2]

    def written_again(folder, **options):
        delete(folder, **options)
        if left[0]:
            left[0] -= 1
            (folder / "c").mkdir(parents=True)

    monkeypatch.setattr(atomic_files.shutil, "rmtree", written_again)
    with pytest.raises(InputError), atomic_folder(tmp_path / "store.zarr"):
        raise OSError(28, "No space left on device")
    assert (left, list(tmp_path.iterdir())) == ([0], [])
