"""Sets of files appear together, whatever ends the process that writes them."""

import os
import subprocess
import sys
import textwrap
from contextlib import nullcontext, suppress

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


@pytest.mark.parametrize(("later", "there"), [(1800, True), (7200, False)])
def test_a_process_of_the_same_number_that_began_later_is_another_one(
    tmp_path, monkeypatch, later, there
):
    """Half an hour may also be a clock that was corrected."""
    with suppress(FileNotFoundError), replacing(tmp_path / "mine.csv") as part:
        began = part.stat().st_mtime + later
        monkeypatch.setattr(psutil.Process, "create_time", lambda process: began)
        recover(tmp_path)
        assert part.exists() == there


def test_files_of_killed_processes_are_removed(tmp_path):
    started = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys; from pathlib import Path\n"
            "from napari_maskinversion.base.atomic_files import replacing\n"
            "with replacing(Path(sys.argv[1]) / 'a.csv'): os._exit(9)",
            str(tmp_path),
        ]
    )
    assert started.returncode == 9
    foreign = tmp_path / ".notes.part"
    foreign.write_text("of another program")
    assert len(list(tmp_path.iterdir())) == 2
    recover(tmp_path)
    assert list(tmp_path.iterdir()) == [foreign]


@pytest.mark.parametrize("block", [nullcontext, together], ids=["alone", "in a set"])
def test_only_a_file_is_replaced_by_a_file(tmp_path, block):
    target = tmp_path / "a.csv"
    target.mkdir()
    with (
        pytest.raises(InputError, match=r"a\.csv could not be written .it is not a file"),
        block(tmp_path),
        atomic_path(target) as part,
    ):
        part.write_text("new")
    assert list(tmp_path.iterdir()) == [target]
    assert target.is_dir()


def test_files_of_another_machine_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "_host", lambda: "abcdef")
    with replacing(tmp_path / "a.csv") as part:
        monkeypatch.undo()
        assert "abcdef" in part.name
        monkeypatch.setattr(psutil, "Process", lambda _: exec("raise psutil.NoSuchProcess(1)"))
        recover(tmp_path)
        assert part.exists()


def write_beside(folder, foreign, **options):
    """Write a set; another program writes one of its files just before it ends."""
    with together(folder, overwrite=False, **options):
        for name in NAMES:
            with atomic_path(folder / name) as part:
                part.write_text("new")
        foreign.write_text("foreign")


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    foreign = tmp_path / "b.tif"
    with pytest.raises(InputError, match=r"b\.tif has appeared since the start"):
        write_beside(tmp_path, foreign)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b.tif": "foreign"}


def test_a_set_that_took_long_is_kept_beside_it(tmp_path):
    foreign = tmp_path / "b.tif"
    with pytest.raises(InputError, match=r"b\.tif has appeared.*All files are in"):
        write_beside(tmp_path, foreign, keep=True)
    assert foreign.read_text() == "foreign"
    (kept,) = (path for path in tmp_path.iterdir() if path != foreign)
    assert {path.name: path.read_text() for path in kept.iterdir()} == dict.fromkeys(NAMES, "new")


def test_a_killed_set_is_finished_but_not_over_what_is_newer(tmp_path):
    """Also one whose hidden name version 0.2.0.dev0 wrote."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    killed = tmp_path / f".set.{atomic_files._host()}-{gone.pid}-123.abc.commit"
    (killed / "old").mkdir(parents=True)
    for name in NAMES:
        (killed / name).write_text("new")
    (tmp_path / "a.csv").write_text("old")
    os.utime(tmp_path / "a.csv", (1e9, 1e9))
    (tmp_path / "b.tif").write_text("newer")
    os.utime(tmp_path / "b.tif", (2e9, 2e9))
    recover(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.csv": "new",
        "b.tif": "newer",
        "c.json": "new",
    }


def test_a_long_name_is_written(tmp_path):
    target = tmp_path / ("n" * 250 + ".csv")
    with together(tmp_path), atomic_path(target) as part:
        part.write_text("new")
    assert target.read_text() == "new"


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
