"""A library: what is added comes back, filtered and searched; nothing else is touched."""

import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from napari_maskinversion import errors
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.base.locks import Lock
from napari_maskinversion.base.progress import WAITING, listening
from napari_maskinversion.library import store
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.store import LOCK, ROWS
from napari_maskinversion.results.export.archive import save_archive
from napari_maskinversion.results.results import Results
from napari_maskinversion.results.spaces import Space
from napari_maskinversion.review.reporting import identities_of, image_of
from napari_maskinversion.review.review import Review
from tests.disk import full_after

from .made import WIDTH, bundle, vectors, write_image


@pytest.fixture
def library(tmp_path):
    """Two images with five regions each; of the first one, some are decided."""
    made = Library.new(tmp_path / "cells")
    states = ("accepted", "rejected", "skipped", "undecided", "undecided")
    made.add(bundle(seed=0, decisions=states), image=write_image(tmp_path, 0))
    made.add(bundle(seed=1), image=write_image(tmp_path, 1))
    return made


def ids(table):
    return table["id"].tolist()


def test_rows_have_place_words_and_decisions(library, tmp_path):
    rows = library.rows()
    assert rows["image"].tolist() == [
        (tmp_path / f"image-{n // 5}.png").as_posix() for n in range(10)
    ]
    assert rows["label"].tolist()[:5] == ["dust", "", "red cell", "white cell", "red cell"]
    assert rows["suggestion"].tolist()[:2] == ["red cell", "white cell"]
    first = rows.iloc[0]
    assert (first["decision"], first["date"]) == ("accepted", "2026-01-02T03:04:05.678Z")
    assert first["confidence"] == pytest.approx(0.7)
    region = bundle().results.regions[0]
    assert tuple(first[["y0", "x0", "y1", "x1"]]) == region.bbox
    assert first["area"] == region.area


def test_decisions_follow_and_undecided_regions_keep_words_and_dates(library):
    before = library.rows()
    plain = bundle(seed=0)  # as a review of results of other words, or of none, has it
    regions = [replace(one, ranking=None) for one in plain.results.regions]
    info = replace(plain.results.info, created="2027-01-01T00:00:00Z")
    columns = {
        "decision": ["undecided", "accepted", "skipped", "undecided", "undecided"],
        "accepted_label": ["", "debris", "", "", ""],
        "decided_at": ["", "2027-01-02T00:00:00Z", "2027-01-02T00:00:00Z", "", ""],
    }
    other = replace(plain, results=Results(info, tuple(regions)), columns=columns)
    assert library.update(other) == 3
    rows = library.rows()
    assert rows["label"].tolist()[:3] == ["red cell", "debris", "red cell"]
    assert rows["decision"].tolist()[:3] == ["undecided", "accepted", "skipped"]
    assert rows.iloc[3:].equals(before.iloc[3:])
    assert library.update(other) == 0


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"label": "dust"}, [1]),
        ({"label": ("dust", "white cell")}, [1, 4, 7, 9]),
        ({"decision": ["skipped", "rejected"]}, [2, 3]),
        ({"image": "image-1.png"}, [6, 7, 8, 9, 10]),
        ({"image": "*-1.*", "label": "red cell"}, [6, 8, 10]),
        ({"before": "2026-01-03"}, [1, 2, 3, 4, 5]),
        ({"before": "20260101"}, []),
        ({"before": "2026-01-02T03:04:06+00:00"}, [1, 2, 3, 4, 5]),
        ({"before": "2026-01-02T04:04:05+01:00"}, []),
        ({"since": "2026-01-03", "ids": [5, 6]}, [6]),
        ({"largest": 5}, []),
        ({"ids": [2**70]}, []),
        ({"smallest": 5, "space": 1}, list(range(1, 11))),
    ],
)
def test_filters(library, where, expected):
    assert ids(library.rows(**where)) == expected
    answers = library.search(like=[vectors(1, 7)[0]], **where)
    assert sorted(ids(answers)) == expected


def test_brackets_in_the_name_of_an_image_are_themselves(library, tmp_path):
    image = write_image(tmp_path, 2).rename(tmp_path / "image [2].png")
    library.add(bundle(1, seed=2), image=image)
    for name in ("image [2].png", str(image), "* [2]*"):
        assert ids(library.rows(image=name)) == [11]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"colour": "red"}, "no filter 'colour'"),
        ({"decision": "maybe"}, "no decision 'maybe'"),
        ({"since": "yesterday"}, "'yesterday' is no date"),
    ],
)
def test_filters_that_cannot_be_are_refused(library, where, said):
    with pytest.raises(errors.MaskInversionError, match=said):
        library.rows(**where)


def test_an_image_that_is_added_again_replaces_its_regions(library, tmp_path):
    before = library.rows(image="image-0.png")
    file = tmp_path / "cells" / "vectors-1-1.f16"
    size = file.stat().st_size
    library.add(bundle(seed=0), image=tmp_path / "image-0.png")
    after = library.rows(image="image-0.png")
    assert ids(after) == ids(before)
    assert set(after["decision"]) == {"undecided"}
    assert file.stat().st_size == size  # the same vectors are not written again
    changed = vectors(5, 0)
    changed[2] = vectors(1, 9)[0]
    library.add(bundle(seed=0, rows=changed), image=tmp_path / "image-0.png")
    assert ids(library.rows(image="image-0.png")) == ids(before)
    assert file.stat().st_size == size + 2 * WIDTH
    assert library.info()["holes"] == 1
    assert ids(library.search(like=[vectors(1, 9)[0]], top=1)) == [3]


def test_regions_that_an_image_has_no_more_go_unless_a_part_of_it_was_run(library, tmp_path):
    path, part = tmp_path / "image-0.png", bundle(2, seed=0)
    info = part.results.info
    only = replace(info, settings=info.settings.model_copy(update={"only": "1,2"}))
    library.add(replace(part, results=replace(part.results, info=only)), image=path)
    assert len(library.rows(image="image-0.png")) == 5
    file = tmp_path / "some.parquet"
    library.export(file, ids=[1])
    library.add(file)
    assert len(library.rows(image="image-0.png")) == 5
    library.add(part, image=path)
    assert ids(library.rows()) == [1, 2, 6, 7, 8, 9, 10]


def test_an_image_is_one_by_whatever_path_and_may_be_moved(library, tmp_path):
    (tmp_path / "new").mkdir()
    library.add(bundle(seed=0), image=tmp_path / "new" / ".." / "image-0.png")
    assert library.info()["images"] == 2
    moved = (tmp_path / "image-0.png").rename(tmp_path / "new" / "image-0.png")
    library.add(bundle(seed=0), image=moved)
    assert library.rows(image=moved.as_posix())["id"].tolist() == [1, 2, 3, 4, 5]
    assert library.info()["images"] == 2
    library.add(bundle(seed=0), image=write_image(tmp_path, 0))  # a copy is another image
    assert library.info()["images"] == 3


def test_decisions_come_with_results_that_are_added_again_wherever_their_image_lies(tmp_path):
    (images := tmp_path / "images").mkdir()
    made, file = bundle(), write_image(images)
    save_archive(made, archive := tmp_path / "results.npz")
    library = Library.new(tmp_path / "cells")
    library.add(archive, image=images)
    with Review(image_of(made), identities_of(made), made.results.info, file=file) as review:
        review.accept(RegionKey(2), "dust")
    library.add(archive)
    assert library.rows(decision="accepted")["label"].tolist() == ["dust"]
    file.unlink()
    assert library.add(archive) == 5


def test_undecided_regions_have_the_date_of_the_run(tmp_path):
    library, saved = Library.new(tmp_path / "cells"), bundle(2)
    info = replace(saved.results.info, created="2026-01-02T03:04:05+00:00")
    saved = replace(saved, results=replace(saved.results, info=info))
    save_archive(saved, tmp_path / "results.npz")
    library.add(tmp_path / "results.npz")
    assert set(library.rows()["date"]) == {"2026-01-02T03:04:05.000Z"}


def test_embeddings_that_are_no_numbers_are_refused_and_hide_no_others(library):
    bad = vectors(5, 3)
    bad[1] = np.nan
    with pytest.raises(errors.InputError, match=r"of image-3.png are not finite numbers"):
        library.add(bundle(seed=3, rows=bad))
    file = library.folder / "vectors-1-1.f16"
    file.write_bytes(b"\xff" * 64 + file.read_bytes()[64:])
    for top in (3, 20):
        answers = library.search(like=[vectors(5, 0)[4]], top=top)
        assert ids(answers)[0] == 5
        assert len(answers) == min(top, 10)


def test_regions_of_other_pixels_go_and_a_line_says_so(library, tmp_path):
    path = tmp_path / "image-0.png"
    write_image(tmp_path, 5).replace(path)
    with pytest.warns(UserWarning, match=r"image-0.png has changed: 5 regions of its earlier"):
        library.add(bundle(3, seed=5), image=path)
    assert len(library.rows(image="image-0.png")) == 3
    with pytest.raises(errors.InputError, match="is not the image of these results"):
        library.add(bundle(seed=0), image=path)


def test_an_image_without_a_path_is_known_by_its_pixels(tmp_path):
    library = Library.new(tmp_path / "cells")
    library.add(bundle(seed=0))
    library.add(bundle(seed=0))
    assert set(library.rows()["image"]) == {"image-0.png"}
    assert library.thumbnail(1) is None
    library.add(bundle(seed=0), image=write_image(tmp_path, 0))
    assert len(library.rows()) == 5
    assert library.thumbnail(1) is not None


def test_a_thumbnail_shows_the_region_and_its_mask(library):
    picture = library.thumbnail(1)
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 4
    assert max(picture.shape) <= 96
    y0, x0, y1, x1 = library.rows(ids=[1]).iloc[0][["y0", "x0", "y1", "x1"]]
    share = (y1 - y0) * (x1 - x0) / (picture.shape[0] * picture.shape[1])
    assert (picture[..., 3] > 127).mean() == pytest.approx(share, abs=0.05)
    assert library.thumbnail(99) is None


def test_more_like_this_leaves_the_example_out(library):
    rows = np.concatenate([vectors(5, 0), vectors(5, 1)])
    answers = library.search(like=[3, 8], unlike=[4], top=8)
    assert not set(ids(answers)) & {3, 4, 8}
    query = (rows[2] + rows[7]) / 2 - rows[3]
    expected = rows @ (query / np.linalg.norm(query))
    at = np.array(ids(answers)) - 1
    np.testing.assert_allclose(answers["similarity"], expected[at], atol=2e-3)
    assert len(answers) == 7
    assert (np.diff(answers["similarity"]) <= 0).all()


def test_spaces_never_mix_and_a_line_says_so(library, tmp_path):
    library.add(bundle(3, seed=2, fingerprint="other"))
    spaces = library.info()["spaces"]
    assert {number: one["regions"] for number, one in spaces.items()} == {1: 10, 2: 3}
    with pytest.warns(UserWarning, match="Only space 1 is searched"):
        answers = library.search(like=[vectors(1)[0]])
    assert set(answers["space"]) == {1}
    assert set(library.search(like=[12])["space"]) == {2}
    assert set(library.search(like=[vectors(1)[0]], space=2)["space"]) == {2}
    with pytest.raises(errors.InputError, match=r"spaces 1, 2\) and cannot be compared"):
        library.search(like=[1, 12])


def test_a_space_does_not_depend_on_the_windows_of_an_image():
    def seen_at(side, chosen=None, note=""):
        results = bundle(2).results
        settings = results.info.settings.model_copy(update={"resolution": chosen})
        first, *rest = results.regions
        window = replace(first.window, resolution=side, memory_note=note)
        first = replace(first, window=window)
        info = replace(results.info, settings=settings)
        return Space.of(replace(results, info=info, regions=(first, *rest))).about

    assert seen_at(32) == seen_at(448) != seen_at(64, 64)
    assert seen_at(64, 64) != seen_at(32, 64)  # memory ran out
    note = "Not enough memory: input of 32 px instead of 64, 2 regions at once"
    assert len({seen_at(32), seen_at(32, None, note), seen_at(16, None, note)}) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"like": [99]}, "no region 99 in the library"),
        ({"unlike": [1]}, "Name a word or a region to look for"),
        ({"like": [1], "unlike": [1]}, "are the same"),
        ({"like": [np.zeros(WIDTH)]}, "16 finite numbers"),
        ({"like": [np.ones(3)]}, "16 finite numbers"),
        ({"like": [1], "space": 7}, "no such embeddings"),
    ],
)
def test_searches_that_cannot_be_are_refused(library, arguments, said):
    with pytest.raises(errors.InputError, match=said):
        library.search(**arguments)


def test_removed_regions_are_not_found_and_compact_drops_them(library, tmp_path):
    other = Library.open(tmp_path / "cells")
    query = vectors(5, 0)[1]
    assert ids(other.search(like=[query], top=1)) == [2]
    assert library.remove(ids=[2]) == 1
    assert ids(other.search(like=[query], top=1)) != [2]  # the other one sees it
    assert library.remove(image="image-1.png") == 5
    assert library.info()["images"] == 1
    before = other.search(like=[query])
    assert library.compact() == 6
    assert library.info()["holes"] == 0
    assert (tmp_path / "cells" / "vectors-1-2.f16").stat().st_size == 4 * 2 * WIDTH
    assert not (tmp_path / "cells" / "vectors-1-1.f16").exists()
    assert other.search(like=[query]).equals(before)
    assert library.compact() == 0
    with pytest.raises(errors.InputError, match="Name what to remove"):
        library.remove()
    assert list(library.verify()) == []


def test_an_export_is_read_back(library, tmp_path):
    library.add(bundle(3, seed=2, fingerprint="other"))
    file = tmp_path / "cells.parquet"
    assert library.export(file) == 13
    with pytest.raises(errors.InputError, match="already has"):
        library.export(file)
    copy = Library.new(tmp_path / "copy")
    assert copy.add(file) == 13
    assert copy.rows().equals(library.rows())
    assert (copy.thumbnail(7) == library.thumbnail(7)).all()
    assert copy.search(like=[1]).equals(library.search(like=[1]))
    assert library.export(tmp_path / "some.parquet", label="dust") == 1
    for name in (ROWS, "vectors-1-1.f16"):
        with pytest.raises(errors.InputError, match="which is an input"):
            library.export(library.folder / name, overwrite=True)
    assert len(library.search(like=[1], space=1)) == 9


def test_an_export_that_is_cut_is_refused(library, tmp_path):
    file = tmp_path / "cells.parquet"
    library.export(file)
    file.write_bytes(file.read_bytes()[:-100])
    before = library.rows()
    with pytest.raises(errors.InputError, match=r"cells.parquet is damaged"):
        library.add(file)
    assert library.rows().equals(before)


def test_folders_that_are_no_library_are_refused(library, tmp_path):
    with pytest.raises(errors.InputError, match="holds no library; 'library new"):
        Library.open(tmp_path)
    with pytest.raises(errors.InputError, match="does not exist; 'library new"):
        Library.open(tmp_path / "elsewhere")
    with pytest.raises(errors.InputError, match="is a library already"):
        Library.new(tmp_path / "cells")
    with pytest.raises(errors.InputError, match="has other files"):
        Library.new(tmp_path)
    with pytest.raises(errors.InputError, match=r"image-0.png is a file"):
        Library.new(tmp_path / "image-0.png")
    with pytest.raises(errors.InputError, match=r"image-0.png is a file; name"):
        Library.open(tmp_path / "image-0.png")
    gone = Library.open(tmp_path / "new", create=True)
    assert len(gone.rows()) == 0
    shutil.rmtree(gone.folder)
    with pytest.raises(errors.InputError, match="does not exist; 'library new"):
        gone.add(bundle(), image=tmp_path / "image-0.png")
    assert not gone.folder.exists()
    assert len(library.rows(space=2**70)) == 0


def edited(library, sql):
    with closing(sqlite3.connect(library.folder / ROWS)) as database:
        database.execute(sql)


def test_other_databases_and_newer_versions_are_left_alone(library):
    edited(library, "PRAGMA user_version = 2")
    content = (library.folder / ROWS).read_bytes()
    for use in (library.rows, lambda: library.add(bundle()), lambda: Library.open(library.folder)):
        with pytest.raises(errors.InputError, match=r"newer version .*\(format 2; .* up to 1\)"):
            use()
    edited(library, "PRAGMA user_version = 1")
    edited(library, "PRAGMA application_id = 5")
    with pytest.raises(errors.InputError, match="database of another program"):
        library.rows()
    edited(library, "PRAGMA application_id = 0x4D494C62")
    assert len(library.rows()) == 10
    assert len(content) == (library.folder / ROWS).stat().st_size


def test_damage_is_said_in_a_line(library):
    file = library.folder / "vectors-1-1.f16"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    for use in (lambda: library.search(like=[1]), lambda: library.add(bundle(seed=2))):
        with pytest.raises(errors.InputError, match=r"vectors-1-1.f16 has 319 bytes of 320"):
            use()
    assert "319 bytes of 320" in next(library.verify())
    file.write_bytes(b"\xff" * 64 + whole[64:])
    assert list(library.verify()) == [
        "2 vectors of vectors-1-1.f16 do not have length 1: they were changed."
    ]
    database = library.folder / ROWS
    database.write_bytes(database.read_bytes()[:100] + b"\xff" * 9000)
    with pytest.raises(errors.InputError, match=r"is damaged \(rows.db: "):
        library.rows()
    database.write_bytes(b"")
    with pytest.raises(errors.InputError, match=r"is damaged \(rows.db: it is empty"):
        library.rows()


def test_compacting_is_done_even_if_the_database_cannot_shrink(library, monkeypatch):
    class Full(sqlite3.Connection):
        def execute(self, query, *values):
            if query == "VACUUM":
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(query, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(
        store.sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Full})
    )
    library.remove(ids=[1])
    assert library.compact() == 1
    assert library.info()["holes"] == 0


def test_another_program_that_has_the_database_is_told(library, monkeypatch):
    monkeypatch.setattr(store, "_PATIENCE", 0.0)
    with closing(sqlite3.connect(library.folder / ROWS, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(errors.InputError, match="in use by another program; repeat"):
            library.rows()


def test_images_that_are_gone_or_have_changed_are_told(library, tmp_path):
    (tmp_path / "image-0.png").unlink()
    write_image(tmp_path, 3).replace(tmp_path / "image-1.png")
    gone, changed = library.verify()
    assert "image-0.png: the image is gone" in gone
    assert "image-1.png: the image has changed" in changed
    assert len(library.search(like=[1])) == 9


def test_a_damaged_picture_is_left_out_and_told(library):
    with closing(sqlite3.connect(library.folder / ROWS)) as database, database:
        database.execute("UPDATE thumbnails SET picture = substr(picture, 1, 40) WHERE id = 2")
    assert [library.thumbnail(number) is None for number in (1, 2, 3)] == [False, True, False]
    assert [line.partition(";")[0] for line in library.verify()] == [
        "Damaged pictures of regions: 1"
    ]


@pytest.mark.parametrize("size", [300, 9000, 40_000])
def test_nothing_is_lost_on_a_full_disk(library, size):
    before = library.rows()

    def fill():
        for seed in range(10, 50):
            library.add(bundle(12, seed=seed, rows=vectors(12, seed)))

    with full_after(size, file=0), pytest.raises(errors.InputError, match="nothing in it was lost"):
        fill()
    kept = library.rows()
    assert kept[: len(before)].equals(before)
    assert all("not known where this image is" in line for line in library.verify())
    library.add(bundle(12, seed=3))
    assert len(library.rows()) == len(kept) + 12


def test_a_second_writer_waits_and_says_for_whom(library):
    lock = Lock(library.folder / LOCK)
    assert lock.acquire()
    waits = pytest.warns(
        UserWarning, match=r"The library .*cells is in use by process \d+ .*waiting"
    )
    with waits, listening(lambda news: lock.release() if news.stage == WAITING else None):
        library.add(bundle(2, seed=4))
    assert len(library.rows()) == 12


def test_threads_read_while_another_writes(library):
    problems = []

    def read():
        try:
            for _ in range(20):
                assert len(library.search(like=[1], top=3)) == 3
                assert library.thumbnail(1) is not None
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seed in range(2, 8):
        library.add(bundle(3, seed=seed))
        library.remove(image=f"image-{seed}.png")
        library.compact()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_run_that_was_stopped_keeps_what_it_did_not_reach(library, tmp_path):
    whole = bundle(4, seed=1)  # without the fifth region, which is not drawn any more
    first = replace(whole.results, regions=whole.results.regions[:2])
    library.add(replace(whole, results=first), image=tmp_path / "image-1.png")
    rows = library.rows(image="image-1.png")
    assert rows["region"].tolist() == [1, 2, 3, 4]
    assert library.forget(tmp_path / "image-1.png") == 4
    assert library.info()["images"] == 1


def test_what_later_versions_keep_is_unknown_in_an_earlier_library_until_it_is_added_again(
    tmp_path,
):
    """`version-1-measures.zip` was made before a library kept masks."""
    with ZipFile(Path(__file__).with_name("version-1-measures.zip")) as kept:
        kept.extractall(tmp_path)
    library = Library.open(tmp_path / "library")
    before = (library.folder / "rows.db").read_bytes()
    rows = library.rows()
    assert rows["label"].tolist() == ["dust", "", "red cell"]
    assert rows["margin"].isna().all()
    assert rows["flagged"].isna().all()
    assert library.masks([1, 2, 3]) == {}
    assert library.search(like=[vectors(3)[1]], top=1)["id"].tolist() == [2]
    assert library.export(tmp_path / "cells.parquet") == 3
    assert (library.folder / "rows.db").read_bytes() == before  # reading changes nothing
    copy = Library.new(tmp_path / "copy")
    assert copy.add(tmp_path / "cells.parquet") == 3
    # The first write adds the columns: what it writes is known, the rest still is not.
    library.add(bundle(2, seed=5), image=write_image(tmp_path, 5))
    assert library.rows()["flagged"].isna().tolist() == [True] * 3 + [False] * 2
    made = bundle(3)
    library.add(made, image=write_image(tmp_path, 0))
    rows = library.rows(image="image-0.png")
    assert rows["id"].tolist() == [1, 2, 3]
    assert rows["margin"].tolist() == [one.margin for one in made.results.regions]
    masks = library.masks([1, 2, 3])
    for number, region in zip((1, 2, 3), made.region_masks(), strict=True):
        np.testing.assert_array_equal(masks[number].unpack().mask, region.unpack().mask)


def test_a_library_in_memory_is_as_one_in_a_folder(tmp_path):
    copy, folder = Library.in_memory(), Library.new(tmp_path / "folder")
    for seed in (0, 1):
        made, image = bundle(5, seed=seed), write_image(tmp_path, seed)
        for one in (copy, folder):
            one.add(made, image=image)
    assert copy.rows().equals(folder.rows())
    answers, expected = (one.search(like=[1], top=3) for one in (copy, folder))
    assert answers["id"].tolist() == expected["id"].tolist()
    np.testing.assert_allclose(  # files have half precision
        answers["similarity"], expected["similarity"], rtol=0, atol=1e-3
    )
    for one in (copy, folder):
        assert one.remove(ids=[2, 3]) == 2
        assert one.compact() == 2
    np.testing.assert_allclose(copy.vectors([1, 9]), folder.vectors([1, 9]), rtol=0, atol=1e-3)
    assert copy.rows().equals(folder.rows())
    assert list(copy.verify()) == []
    with pytest.raises(errors.InputError, match="in memory"):
        copy.image_of(77)
    assert not Path("in memory").exists()


def test_a_large_library_is_added_to_as_fast_as_a_small_one(library, monkeypatch):
    steps, connect = [], sqlite3.connect

    def counted(*arguments, **options):
        made = connect(*arguments, **options)
        made.set_progress_handler(lambda: steps.append(1), 50)  # each 50 steps of its machine
        return made

    def cost(seed):
        steps.clear()
        library.add(bundle(2, seed=seed))
        return len(steps)

    monkeypatch.setattr(store.sqlite3, "connect", counted)
    before = cost(5)
    one, rows = bundle(1, seed=7), enumerate(vectors(3000, seed=8), 1)
    first = one.results.regions[0]
    regions = tuple(replace(first, id=number, raw_embedding=row) for number, row in rows)
    library.add(replace(one, results=replace(one.results, regions=regions), masks={}))
    assert cost(6) < 2 * before
    steps.clear()
    assert len(library.search(like=[vectors(1)[0]], label="dust")) == 1
    assert len(steps) < 100  # not all rows
