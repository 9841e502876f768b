"""Limits of flags from regions that a user has decided about."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.identity import ImageIdentity
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.language.labels.learned import Learned
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.regions.label_images import PlaneRegions
from napari_maskinversion.results.export.archive import open_archive, save_archive
from napari_maskinversion.results.export.bundle import Bundle, compress_masks
from napari_maskinversion.results.region_result import RegionResult, WindowRecord
from napari_maskinversion.results.results import Results
from napari_maskinversion.review.reporting import calibrate_from_files
from napari_maskinversion.review.review import Review

from .decided import CELLS, image, info, key, label_image, regions

WINDOW = WindowRecord(
    box=(0.0, 0.0, 60.0, 80.0),
    level=0,
    pixels=(60, 80),
    input_size=(64, 64),
    grid=(8, 8),
    whole=True,
)


def result(region, margin, overlap, words):
    similarities = np.array([0.3, 0.3 - margin], np.float32)
    ranking = Ranking(words, similarities, np.array([0.6, 0.4], np.float32))
    return RegionResult(
        id=region.id,
        bbox=region.bbox,
        area=36.0,
        raw_embedding=np.ones(4, np.float32),
        grid_map=np.ones((8, 8), np.float32),
        losses=np.ones(2, np.float32),
        ranking=ranking,
        iou=overlap,
        low_resolution=False,
        window=WINDOW,
        index=region.id - 1,
    )


def reviewed(folder, seed, wrong=(), undecided=(), inside=True, **more):
    """Save results of an image whose regions were accepted; the wrong ones with another label."""
    about, plane = info(**more), Regions.from_labels(label_image())
    words = about.vocabulary.labels
    rows = tuple(
        result(one, 0.01 if one.id in wrong else 0.1 + 0.01 * one.id, 0.5, words) for one in plane
    )
    identity = image(seed, f"cells{seed}.png")
    with Review(identity, regions(), about, file=folder / f"cells{seed}.png") as review:
        for number in range(1, CELLS + 1):
            if number in wrong:
                review.accept(key(number), words[1]) if number % 2 else review.reject(key(number))
            elif number not in undecided:
                review.accept(key(number), words[0])
        log = review.saved()
    path = folder / f"results{seed}.npz"
    bundle = Bundle(
        results=Results(about, rows),
        masks=compress_masks([PlaneRegions((), plane)]),
        image=identity,
        decisions=log if inside else b"",
    )
    save_archive(bundle, path)
    return path


def test_limits_are_chosen_without_what_was_learned_from_the_same_decisions(tmp_path):
    files = [reviewed(tmp_path, seed, wrong=(3, 4)) for seed in range(3)]
    expected, _ = calibrate_from_files("demo", files)
    for path in files:
        save_archive(ranked_by_decisions(open_archive(path)), path)
    assert calibrate_from_files("demo", files)[0] == expected


def ranked_by_decisions(bundle):
    """Results whose best label is the other one, by what a review learned."""
    words = bundle.results.info.vocabulary
    learned = Learned(name="unsaved", sha256="01", decisions=CELLS, chosen=words.labels)
    rankings = [
        replace(region.ranking, labels=words.labels[::-1], before=region.ranking)
        for region in bundle.results.regions
    ]
    results = bundle.results.ranked(replace(words, learned=learned), rankings)
    return replace(bundle, results=results)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"mine",
        lambda data: data[:-9],
        lambda data: data.replace(b'"action"', b'"acti"'),
    ],
)
def test_decisions_in_results_that_cannot_be_read_are_named(tmp_path, call, spoil):
    file = reviewed(tmp_path, 1)
    bundle = open_archive(file)
    save_archive(replace(bundle, decisions=spoil(bundle.decisions), columns={}), file)
    code, _, err = call("export", file, "--format", "csv", "--out", tmp_path / "out")
    assert code == 2
    assert f"{file} is damaged: decisions in it cannot be read. Use an earlier copy, or" in err
    assert not (tmp_path / "out").exists()


def test_accepted_suggestions_are_right_corrected_and_rejected_ones_wrong(tmp_path):
    files = [reviewed(tmp_path, seed, wrong=(3, 4), undecided=(5,)) for seed in range(3)]
    limits, results = calibrate_from_files("demo", files)
    assert (limits.right, limits.wrong) == (27, 6)
    assert limits.wrong_flagged == 1.0
    assert limits.right_kept >= 0.85
    assert 0.01 < limits.margin <= 0.14
    assert limits.source == "results0.npz, results1.npz, results2.npz"
    assert results.info.fingerprint == "abc123"


def test_a_region_that_two_files_hold_counts_once(tmp_path):
    files = [reviewed(tmp_path, seed) for seed in range(2)]
    copy = tmp_path / "copy.npz"
    shutil.copy(files[0], copy)
    limits, _ = calibrate_from_files("demo", [*files, files[0], copy])
    assert limits.right == 24


def test_decisions_may_lie_in_a_file_of_their_own(tmp_path):
    files = [reviewed(tmp_path, seed, inside=False) for seed in range(2)]
    with pytest.raises(InputError, match="needs 20 regions .* there are 0"):
        calibrate_from_files("demo", files)
    logs = [tmp_path / f"cells{seed}.png.maskinversion.jsonl" for seed in range(2)]
    limits, _ = calibrate_from_files("demo", [*files, *logs])
    assert (limits.right, limits.wrong, limits.wrong_flagged) == (24, 0, None)
    with pytest.raises(InputError, match=r"name at least one results\.npz"):
        calibrate_from_files("demo", logs)


def test_results_of_other_weights_are_refused_by_file(tmp_path):
    files = [reviewed(tmp_path, 0), reviewed(tmp_path, 1, fingerprint="other")]
    with pytest.raises(InputError, match=r"results1\.npz was computed with other weights"):
        calibrate_from_files("demo", files)
    with pytest.raises(InputError, match=r"results0\.npz holds results of the model demo, not of"):
        calibrate_from_files("ViT-B-16/openai", files[:1])


def test_results_that_do_not_say_their_image_are_refused(tmp_path):
    path = reviewed(tmp_path, 0)
    bundle = open_archive(path)
    save_archive(replace(bundle, image=ImageIdentity()), path)
    with pytest.raises(InputError, match="does not say which image it is of"):
        calibrate_from_files("demo", [path])
