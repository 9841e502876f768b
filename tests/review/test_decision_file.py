"""Every decision is on the disk before its call returns, and nothing there is ever spoilt."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from napari_maskinversion.base.cache_folder import cache_folder
from napari_maskinversion.base.errors import InputError, InUseError, NotSavedError
from napari_maskinversion.review.decision_file import has_decisions, read_runs
from napari_maskinversion.review.decisions import Decision, Suggestion
from napari_maskinversion.review.review import Review

from .decided import image, info, key, regions


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cells.png"


def beside(file):
    return file.with_name(file.name + ".maskinversion.jsonl")


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def labels(review):
    return {k.id: label for k, label in review.decisions.accepted().items()}


def opened(file, **other):
    return Review(image(), regions(), info(), file=file, **other)


def test_looking_leaves_nothing_behind(file):
    opened(file).close()
    assert not beside(file).exists()


def test_decisions_follow_an_image_that_is_renamed_and_moved_but_not_a_copy(file, tmp_path):
    file.write_bytes(b"pixels")
    with opened(file) as review:
        review.accept(key(1), "dog")
    copy, moved = tmp_path / "copy.png", tmp_path / "elsewhere" / "renamed.png"
    copy.write_bytes(b"pixels")
    with opened(copy) as review:
        assert labels(review) == {}
    moved.parent.mkdir()
    file.rename(moved)
    assert has_decisions(moved, image())
    assert read_runs(moved, image())
    with opened(moved) as review:
        assert labels(review) == {1: "dog"}
        assert any("renamed or moved: its decisions are in" in note for note in review.notes)
        review.accept(key(2), "cat")
    with opened(moved) as review:
        assert labels(review) == {1: "dog", 2: "cat"}
    file.write_bytes(b"other pixels")  # takes the old name
    with opened(moved) as review:
        assert labels(review) == {1: "dog", 2: "cat"}
        review.undo()
        review.undo()
        assert labels(review) == {}


def test_decisions_of_a_file_that_no_list_of_places_knows_follow_once_it_was_opened(file, tmp_path):
    file.write_bytes(b"pixels")
    with opened(file) as review:
        review.accept(key(1), "dog")
    for places in cache_folder().rglob("places*"):
        places.unlink()
    with opened(file):
        pass
    moved = file.rename(tmp_path / "renamed.png")
    with opened(moved) as review:
        assert labels(review) == {1: "dog"}


def test_lists_of_places_of_earlier_versions_are_read_and_become_lines_of_one_list(file, tmp_path):
    places = cache_folder() / "review"
    places.mkdir()
    file.write_bytes(b"pixels")
    with opened(file) as review:
        review.accept(key(1), "dog")
    (places / "places.maskinversion.jsonl").unlink()
    (places / f"{image().content}.places").write_text(f"{beside(file)}\n", "utf-8")
    (places / f"{image(seed=1).content}.places").write_text(f"{tmp_path / 'gone'}\n", "utf-8")
    (places / "damaged.places").write_bytes(b"\xff\xfe")
    moved = tmp_path / "elsewhere" / "renamed.png"
    moved.parent.mkdir()
    file.rename(moved)
    with opened(moved) as review:
        assert labels(review) == {1: "dog"}
    assert [path.name for path in places.iterdir()] == ["places.maskinversion.jsonl"]
    assert [line["kind"] for line in lines(places / "places.maskinversion.jsonl")] == ["place"] * 2


def test_places_that_another_program_adds_are_known_and_a_line_cut_off_costs_itself(file, tmp_path):
    places = cache_folder() / "review" / "places.maskinversion.jsonl"
    for number in range(3):
        old = tmp_path / f"old-{number}.png"
        old.touch()
        with Review(image(seed=number), regions(), info(), file=old) as review:
            review.accept(key(1), "dog")
        old.unlink()
        if number == 1:  # another program is killed
            places.write_bytes(places.read_bytes()[:-20])
    new = tmp_path / "elsewhere" / "new.png"
    new.parent.mkdir()
    new.touch()
    known = [has_decisions(new, image(seed=number)) for number in range(3)]
    assert known == [True, False, True]


def test_decisions_follow_an_image_that_is_renamed_in_a_folder_that_is_moved_too(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    file = there / "cells.png"
    file.write_bytes(b"pixels")
    beside(there / "foreign.png").write_text("not ours")
    with opened(file) as review:
        review.accept(key(1), "dog")
    file.rename(there / "renamed.png")
    moved = there.rename(tmp_path / "moved") / "renamed.png"
    assert read_runs(moved, image())
    assert not has_decisions(moved, image(seed=1))
    with opened(moved) as review:
        assert labels(review) == {1: "dog"}
        review.accept(key(2), "cat")
    with opened(moved) as review:
        assert labels(review) == {1: "dog", 2: "cat"}


def test_files_that_renamed_images_left_are_read_once_while_others_are_decided_about(
    tmp_path, monkeypatch
):
    olds = [tmp_path / f"old-{number}.png" for number in range(3)]
    for number, old in enumerate(olds):
        old.touch()
        with Review(image(seed=number), regions(), info(), file=old) as review:
            review.accept(key(1), "dog")
    for old in olds:
        old.unlink()
    shutil.rmtree(cache_folder())
    reads, read = Counter[Path](), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.update([path]) or read(path))
    for number in range(10, 14):
        with Review(image(seed=number), regions(), info(), file=tmp_path / f"{number}.png") as one:
            one.accept(key(1), "cat")
    assert [reads[beside(old)] for old in olds] == [1, 1, 1]
    assert has_decisions(tmp_path / "renamed.png", image(seed=2))
    beside(olds[2]).unlink()
    assert not has_decisions(tmp_path / "renamed.png", image(seed=2))


def test_a_decision_is_one_line_under_a_header_that_says_how_it_came_to_be(file):
    taken = Suggestion(label="red cell", rank=1, similarity=0.31, by="text")
    with opened(file) as review:
        review.accept(key(3), "red cell", taken)
        header, line = lines(beside(file))  # before it is closed
    about = {"format": "napari-maskinversion decisions", "version": 1, "kind": "run"}
    assert header.items() >= about.items()
    assert header["model"] == {"name": "demo", "fingerprint": "abc123", "device": "cpu"}
    assert header["config"]["steps"] == 3
    assert header["vocabulary"]["labels"] == ["red cell", "white cell"]
    pixels = {"name": "cells.png", "shape": [60, 80, 3], "dtype": "uint8"}
    assert header["image"] == {**pixels, "content": image().content}
    assert (line["region"], line["mask"]) == (3, regions()[2].mask)
    assert (line["status"], line["label"]) == ("accepted", "red cell")
    assert line["time"].endswith("Z")
    suggested = {"label": "red cell", "rank": 1, "similarity": 0.31, "by": "text", "score": None}
    assert line["suggested"] == suggested


def test_everything_comes_back_with_every_step_that_can_be_undone(file):
    with opened(file) as review:
        review.accept(key(1), 'größe "µ", 1\n2')
        review.reject(key(2))
        review.decide(*(Decision(region=key(n), status="accepted", label="x") for n in (2, 3, 4)))
        review.skip(key(5))
        review.undo()
    with opened(file) as review:
        assert labels(review) == {1: 'größe "µ", 1\n2', 2: "x", 3: "x", 4: "x"}
        assert review.notes == ["4 earlier decisions restored."]
        assert (review.decisions.undoable, review.decisions.redoable) == (3, 1)
        review.undo()
        assert review.decisions.status(key(2)) == "rejected"
    with opened(file) as review:
        assert labels(review) == {1: 'größe "µ", 1\n2'}
        assert (review.decisions.undoable, review.decisions.redoable) == (2, 2)
        review.redo()
        review.redo()
        assert review.decisions.status(key(5)) == "skipped"


def test_each_run_has_its_own_header(file):
    with opened(file) as review:
        review.accept(key(1), "a")
        review.set_info(info(words=("dog",)))
        review.accept(key(2), "dog")
        review.accept(key(3), "dog")
    with opened(file) as review:
        review.accept(key(4), "a")
    kinds = [line["kind"] for line in lines(beside(file))]
    assert kinds == ["run", "decision", "run", "decision", "decision", "run", "decision"]
    assert lines(beside(file))[2]["vocabulary"]["labels"] == ["dog"]


def test_a_line_cut_off_is_dropped_then_repaired(file):
    with opened(file) as review:
        for number in (1, 2, 3):
            review.accept(key(number), "a")
    whole = beside(file).read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    cuts = {*range(1, len(whole), 29), *(end + by for end in ends for by in (-1, 0, 1))}
    for cut in sorted(cuts - {len(whole)}):
        beside(file).write_bytes(whole[:cut])
        complete = cut in ends  # but for its line break
        with opened(file) as review:
            count = max(whole[:cut].count(b"\n") - 1 + complete, 0)
            assert len(review.decisions) == count
            torn = not complete and cut - 1 not in ends
            assert any("cut off" in note for note in review.notes) == torn
            review.accept(key(9), "after")
        assert all(lines(beside(file)))  # every line is whole again
        with opened(file) as review:
            assert labels(review)[9] == "after"
            assert len(review.decisions) == count + 1
            assert not any("cut off" in note for note in review.notes)


def test_a_damaged_line_costs_itself_alone(file):
    with opened(file) as review:
        for number in (1, 2, 3):
            review.accept(key(number), "a")
    rows = beside(file).read_bytes().splitlines(keepends=True)
    rows[2] = b"\x00\xff broken\n"
    beside(file).write_bytes(b"".join(rows))
    with opened(file) as review:
        assert labels(review) == {1: "a", 3: "a"}
        assert any("1 line of cells.png.maskinversion.jsonl could not" in n for n in review.notes)
    assert beside(file).read_bytes() == b"".join(rows)


def test_a_newer_file_is_refused_by_number_and_left_untouched(file):
    with opened(file) as review:
        review.accept(key(1), "a")
    header, line = beside(file).read_text("utf-8").splitlines()
    newer = header.replace('"version": 1', '"version": 7')
    for text in (f"{newer}\n{line}\n", f"{header}\n{line}\n{newer}\n{line}\n"):
        beside(file).write_text(text, "utf-8")
        with pytest.raises(InputError, match=r"format 7; this one reads up to 1.*update"):
            opened(file)
        assert beside(file).read_text("utf-8") == text


@pytest.mark.parametrize(
    "foreign", [b"my notes\n", b"{}\n", b"\x89PNG\r\n\x1a\n", b'{"format": "other"}\n', b"\n"]
)
def test_a_file_of_someone_else_is_never_overwritten(file, foreign):
    beside(file).write_bytes(foreign)
    with pytest.raises(InputError, match="is not a decision file of this plugin"):
        opened(file)
    assert beside(file).read_bytes() == foreign


def test_two_windows_cannot_write_at_once_and_the_second_is_told(file):
    with opened(file) as first:
        first.accept(key(1), "a")
        with pytest.raises(InUseError, match=r"another window or program.*Close the review there"):
            opened(file)
        first.accept(key(2), "a")
    with opened(file) as second:
        assert labels(second) == {1: "a", 2: "a"}


def test_two_programs_cannot_write_at_once_and_the_second_is_told(file):
    with subprocess.Popen(
        [sys.executable, "-c", DECIDE, str(file)], stdout=subprocess.PIPE, text=True, env=ENV
    ) as other:
        other.stdout.readline()
        with pytest.raises(InUseError, match="another window or program"):
            opened(file)
        other.kill()
    opened(file).close()


def test_a_failed_opening_lets_go(file):
    beside(file).write_text("foreign")
    with pytest.raises(InputError):
        opened(file)
    beside(file).unlink()
    opened(file).close()


@contextmanager
def full_disk(room):
    """No file may grow beyond some bytes: writes stop part way."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("room", [0, 20, 250])
def test_on_a_full_disk_nothing_is_lost_or_half_written(file, room):
    with opened(file) as review:
        review.accept(key(1), "a")
        whole = beside(file).read_bytes()
        with full_disk(len(whole) + room):
            for number in (2, 3):
                with pytest.raises(NotSavedError, match=r"cells.png.maskinversion.jsonl could not"):
                    review.accept(key(number), "a" * 300)
            with pytest.raises(NotSavedError):
                review.close()
        assert beside(file).read_bytes() == whole
        assert review.unsaved == 2
        assert set(labels(review)) == {1, 2, 3}
        review.accept(key(4), "a")
        assert review.unsaved == 0
    with opened(file) as review:
        assert set(labels(review)) == {1, 2, 3, 4}
        assert review.decisions.undoable == 4


def test_a_disk_that_fails_at_the_last_moment_is_not_trusted(file, monkeypatch):
    real = os.fsync

    def fail(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(file) as review:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(NotSavedError, match="No space left on device"):
            review.accept(key(1), "a")
        monkeypatch.setattr(os, "fsync", real)
        review.save()
    kinds = [line["kind"] for line in lines(beside(file))]
    assert kinds == ["run", "decision"]


def test_a_file_that_was_deleted_meanwhile_is_made_anew_with_all_that_is_known(file):
    with opened(file) as review:
        review.accept(key(1), "a")
        review.accept(key(2), "b")
        beside(file).unlink()
        review.accept(key(3), "c")
    with opened(file) as review:
        assert labels(review) == {1: "a", 2: "b", 3: "c"}


def test_a_file_that_was_deleted_before_the_disk_filled_is_made_anew_too(file):
    with opened(file) as review:
        review.accept(key(1), "a")
        beside(file).unlink()
        with full_disk(20), pytest.raises(NotSavedError):
            review.accept(key(2), "b")
        review.accept(key(3), "c")
    with opened(file) as review:
        assert labels(review) == {1: "a", 2: "b", 3: "c"}


def test_a_file_that_was_replaced_by_a_foreign_one_is_not_written_to(file):
    with opened(file) as review:
        review.accept(key(1), "a")
        beside(file).unlink()
        beside(file).write_text("my notes")
        with pytest.raises(NotSavedError, match="is not a decision file of this plugin"):
            review.accept(key(2), "b")
        assert beside(file).read_text() == "my notes"
        beside(file).unlink()
    with opened(file) as review:
        assert labels(review) == {1: "a", 2: "b"}


def refuse(monkeypatch, folder, error=errno.EROFS):
    """Make a folder read-only, also for the superuser."""
    real = os.open

    def guarded(path, flags, *args, **kwargs):
        inside = folder in (Path(path), Path(path).parent)
        if inside and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(error, os.strerror(error), str(path))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", guarded)


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_in_a_read_only_folder_decisions_go_to_the_cache_and_it_says_so(
    file, monkeypatch, own_cache_folder, error
):
    with opened(file) as review:
        review.accept(key(1), "a")
    before = beside(file).read_bytes()
    with monkeypatch.context() as patch:
        refuse(patch, file.parent, error)
        with opened(file) as review:
            assert review.path.parent == own_cache_folder / "review"
            assert os.strerror(error) in review.notes[0]
            assert str(review.path) in review.notes[1]
            assert labels(review) == {1: "a"}
            review.accept(key(2), "b")
            review.undo()
            review.accept(key(1), "z")
        with opened(file) as review:
            assert labels(review) == {1: "z"}
    assert beside(file).read_bytes() == before
    with opened(file) as review:  # and what was decided there is known when it can be written
        assert review.path == beside(file)
        assert labels(review) == {1: "z"}


def test_pixels_without_a_file_are_remembered_by_what_they_are():
    with Review(image(name="Layer: 1/2"), regions(), info()) as review:
        review.accept(key(1), "a")
        assert review.path.name.startswith("Layer_ 1_2-")
    with Review(image(seed=1, name="Layer: 1/2"), regions(), info()) as review:
        assert not review.decisions
    with Review(image(name="Layer: 1/2"), regions(), info()) as review:
        assert labels(review) == {1: "a"}


def test_in_a_read_only_folder_decisions_are_found_by_any_path(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to("images")
    refuse(monkeypatch, tmp_path / "images")
    with opened(tmp_path / "images" / "a.png") as review:
        review.accept(key(1), "a")
    monkeypatch.chdir(tmp_path / "project")
    for folder in (tmp_path / "project/../images", tmp_path / "link", Path("../images")):
        refuse(monkeypatch, folder)
        with opened(folder / "a.png") as review:
            assert labels(review) == {1: "a"}


@pytest.mark.parametrize("sign", ["a", "細"])
@pytest.mark.parametrize("size", [228, 251])
def test_an_image_with_a_long_name_can_be_reviewed(tmp_path, sign, size):
    file = tmp_path / (sign * (size // len(sign.encode()) - 1) + ".tif")
    file.touch()
    assert not has_decisions(file, image())
    with opened(file) as review:
        review.accept(key(1), "a")
    assert has_decisions(file, image())
    with opened(file) as review:
        assert labels(review) == {1: "a"}
    assert [len(run.entries) for run in read_runs(file, image())] == [1]


def test_a_region_is_not_accepted_without_a_label(file):
    with opened(file) as review:
        with pytest.raises(InputError, match="without a label"):
            review.accept(key(1), " ")
        assert review.undo() == ()
    assert not beside(file).exists()


ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
DECIDE = """
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from tests.review.decided import image, info, key, regions
from napari_maskinversion.review.review import Review
review = Review(image(), regions(), info(), file=Path(sys.argv[1]))
turn = review.decisions.undoable
while True:
    turn += 1
    review.accept(key(turn % 12 + 1), f"label {turn}")
    print(turn, flush=True)
"""
