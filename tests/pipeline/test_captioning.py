"""Captions in a run, in the table and in the files; and for results that exist."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import ConfigError, InputError
from napari_maskinversion.language.captions.bank_building import build_bank
from napari_maskinversion.language.captions.caption_files import Captions
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.pipeline import caption_ranking as captioning
from napari_maskinversion.pipeline.caption_ranking import add_captions
from napari_maskinversion.pipeline.run import RegionChunk
from napari_maskinversion.results.export import catalogue
from tests.listeners import collect
from tests.scenes import demo_model, picture, regions, run

TEXTS = ("a red apple", "a car, parked", "a house", "ein Fisch", "keys", "a bus", "two birds")
QUICK = InversionConfig(steps=2)


@pytest.fixture
def bank():
    return build_bank(demo_model(), Captions.of(TEXTS, "texts.csv"))


def everything(*asked, **options):
    news, results = collect(lambda: run(*asked, **options))
    return [item for item in news if isinstance(item, RegionChunk)], results


def assert_described(results, count=5):
    similarities = results.embeddings @ demo_model().encode_text(list(TEXTS)).T
    for region, row in zip(results.regions, similarities, strict=True):
        assert region.captions.captions == tuple(TEXTS[i] for i in np.argsort(-row)[:count])
        np.testing.assert_allclose(
            region.captions.similarities, np.sort(row)[::-1][:count], atol=1e-3
        )


@pytest.mark.parametrize("words", [None, Vocabulary(("apple", "car"))])
def test_every_region_gets_its_best_captions_with_labels_or_without(bank, words):
    chunks, results = everything(
        demo_model(), picture(), regions(5), words, QUICK, chunk_size=2, bank=bank
    )
    assert_described(results)
    # A small bank is searched at once, chunk by chunk.
    for chunk in chunks:
        assert_described(chunk.so_far)
        assert all(region.captions for region in chunk.results)
    assert (results.regions[0].ranking is None) == (words is None)
    frame = results.to_frame()
    assert list(frame["caption"]) == [region.captions.captions[0] for region in results.regions]
    assert (frame["caption_similarity"] >= frame["caption_similarity_2"]).all()
    assert "caption_5" in frame
    assert "caption_6" not in frame


def test_a_run_without_a_bank_has_no_caption_columns():
    results = run(demo_model(), picture(), regions(2), None, QUICK)
    assert not [name for name in results.to_frame() if "caption" in name]
    assert results.regions[0].captions is None


def test_with_a_large_bank_regions_wait_and_none_is_forgotten(bank, monkeypatch):
    monkeypatch.setattr(captioning, "_A_REGION", len(bank) * demo_model().embed_dim // 3)
    searched = []
    search = bank.search
    monkeypatch.setattr(
        bank, "search", lambda unit, *a, **k: searched.append(len(unit)) or search(unit, *a, **k)
    )
    chunks, results = everything(
        demo_model(), picture(), regions(9), None, QUICK, chunk_size=2, bank=bank
    )
    assert searched == [4, 4, 1]
    assert_described(results)
    assert_described(chunks[-1].so_far)
    table = chunks[0].so_far.to_frame()  # before the first search
    assert list(table["caption"].isna()) == [True, True]
    # What a cancelled run left without captions gets them later.
    assert_described(add_captions(chunks[2].so_far, bank, demo_model()))
    assert searched[3:] == [2]


def test_results_that_exist_get_captions_without_another_inversion(bank):
    plain = run(demo_model(), picture(), regions(3), None, QUICK)
    results = add_captions(plain, bank, demo_model(), 3)
    assert_described(results, 3)
    assert plain.regions[0].captions is None
    assert results.info.captions.top == 3
    np.testing.assert_array_equal(results.raw_embeddings, plain.raw_embeddings)
    # Another bank, or another number, replaces them all.
    other = build_bank(demo_model(), Captions.of(["only this"]))
    assert set(add_captions(results, other, demo_model()).to_frame()["caption"]) == {"only this"}
    assert_described(add_captions(results, bank, demo_model(), 4), 4)


@pytest.mark.parametrize("device", ["cuda:7", "nowhere"])
def test_results_of_a_device_that_is_not_here_get_captions_too(bank, device):
    plain = run(demo_model(), picture(), regions(2), None, QUICK)
    elsewhere = replace(plain, info=replace(plain.info, device=device))
    assert_described(add_captions(elsewhere, bank))


def test_files_hold_the_captions_and_where_they_come_from(bank, tmp_path):
    results = run(demo_model(), picture(), regions(2), None, QUICK, bank=bank, top_captions=2)
    catalogue.write_results(results, tmp_path, ("csv", "json"))
    frame = pd.read_csv(tmp_path / "regions.csv")
    pd.testing.assert_frame_equal(
        frame[["caption", "caption_similarity", "caption_2", "caption_similarity_2"]],
        results.to_frame()[["caption", "caption_similarity", "caption_2", "caption_similarity_2"]],
        check_dtype=False,
    )
    assert "caption_3" not in frame
    record = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert record["captions"]["top"] == 2
    assert record["captions"]["bank"]["source"] == "texts.csv"
    assert record["captions"]["bank"]["sha256"] == Captions.of(TEXTS).sha256
    for row, region in zip(frame.to_dict("records"), record["regions"], strict=True):
        assert [caption["caption"] for caption in region["captions"]] == [
            row["caption"],
            row["caption_2"],
        ]
        assert region["captions"][1]["similarity"] == pytest.approx(row["caption_similarity_2"])


def test_a_bank_of_another_model_or_a_number_that_will_not_do_is_refused_first(bank, monkeypatch):
    with pytest.raises(ConfigError, match="got 0"):
        run(demo_model(), picture(), regions(2), None, QUICK, bank=bank, top_captions=0)
    monkeypatch.setattr(type(demo_model()), "fingerprint", "another")
    with pytest.raises(InputError, match="built with the model demo"):
        run(demo_model(), picture(), regions(2), None, QUICK, bank=bank)
