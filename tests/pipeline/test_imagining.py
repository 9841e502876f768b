"""Pictures of regions in one call, and what is refused before a model is loaded."""

import json
import subprocess
import sys

import numpy as np
import pytest
import skimage.io

import napari_maskinversion as nmi
from napari_maskinversion.base.errors import (
    ConfigError,
    InputError,
    MaskInversionError,
    ModelError,
    NotEnoughMemoryError,
)
from napari_maskinversion.diffusion.generated_pictures import Picture, PictureStep
from napari_maskinversion.pipeline import imagining
from napari_maskinversion.pipeline.labelling import label_regions
from tests import tiny_decoders
from tests.scenes import demo_model, label_image, picture


@pytest.fixture(scope="session")
def decoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoders")
    tiny_decoders.kandinsky(folder / "kandinsky")
    tiny_decoders.unclip(folder / "unclip")
    tiny_decoders.prior(folder / "prior")
    return folder


@pytest.fixture(scope="session")
def kept():
    """Decoders that are loaded, by folder and precision."""
    return {}


@pytest.fixture
def imagine(decoders, kept, monkeypatch):
    load = imagining.load_decoder

    def load_once(plan):
        key = (plan.folder.path, plan.dtype)
        if key not in kept:
            kept[key] = load(plan)
        return kept[key]

    def call(region=1, **options):
        usual = {"weights": decoders / "kandinsky", "steps": 2, "size": 64, "model": demo_model()}
        return nmi.imagine(picture(), label_image(), region, **{**usual, **options})

    monkeypatch.setattr(imagining, "load_decoder", load_once)
    return call


def by_file(imagined):
    return {one.file: one.pixels for one in imagined.pictures}


def test_a_region_and_the_whole_image_are_drawn(imagine, no_network):
    told = []
    imagined = imagine(2, pictures=2, seed=5, on_progress=told.append)
    names = ["region-2_seed-5.png", "region-2_seed-6.png", "cls_seed-5.png", "cls_seed-6.png"]
    assert list(by_file(imagined)) == names
    assert [one for one in told if isinstance(one, Picture)] == list(imagined.pictures)
    steps = [one for one in told if isinstance(one, PictureStep)]
    assert [one.fraction for one in steps] == pytest.approx([k / 8 for k in range(1, 9)])
    assert steps[2].text == "Picture 2 of 4, step 1 of 2"
    assert steps[-1].text == "Picture 4 of 4, step 2 of 2"


def test_the_same_seed_gives_the_same_pictures(imagine):
    first, again = by_file(imagine(2)), by_file(imagine(2))
    for name, pixels in first.items():
        np.testing.assert_array_equal(again[name], pixels)
    # Another region is another picture from the same noise; [CLS]'s is the same.
    other = by_file(imagine(3))
    np.testing.assert_array_equal(other["cls_seed-0.png"], first["cls_seed-0.png"])
    assert (other["region-3_seed-0.png"] != first["region-2_seed-0.png"]).any()
    # Each picture has its own seed, whatever others are drawn.
    both = by_file(imagine(2, pictures=2, seed=1))
    (alone, _) = by_file(imagine(2, seed=2)).values()
    np.testing.assert_array_equal(both["region-2_seed-2.png"], alone)
    assert (both["region-2_seed-1.png"] != alone).any()


@pytest.fixture
def drawn(monkeypatch):
    """What decoders are asked to draw."""
    asked = []

    class Recorder:
        def draw(self, condition, settings):
            asked.append(condition)
            return np.zeros((64, 64, 3), np.uint8)

    monkeypatch.setattr(imagining, "load_decoder", lambda _: Recorder())
    return asked


def test_it_draws_the_embedding_as_optimised(imagine, drawn):
    imagine(2)
    results = label_regions(
        picture(), label_image(), None, model=demo_model(), window="whole", only="2"
    )
    raw = results.regions[0].raw_embedding
    np.testing.assert_allclose(drawn[0].embedding, raw, rtol=1e-4, atol=1e-5)
    cls = drawn[1].embedding
    shown = demo_model().embed_images(demo_model().preprocess(picture()))
    np.testing.assert_allclose(cls, shown[0].numpy(), rtol=1e-4, atol=1e-5)
    imagine(2, norm="cls")
    assert np.linalg.norm(drawn[2].embedding) == pytest.approx(np.linalg.norm(cls), rel=1e-4)
    assert np.linalg.norm(raw) != pytest.approx(np.linalg.norm(cls), rel=1e-2)


def test_several_regions_are_one_query_or_one_after_the_other(imagine):
    together = by_file(imagine([[2, 3]]))
    assert list(together) == ["region-2+3_seed-0.png", "cls_seed-0.png"]
    apart = by_file(imagine([2, 3]))
    assert list(apart) == ["region-2_seed-0.png", "region-3_seed-0.png", "cls_seed-0.png"]
    alone = by_file(imagine(2))["region-2_seed-0.png"].astype(int)
    # Regions that are inverted together differ in the last bits.
    assert np.abs(apart["region-2_seed-0.png"] - alone).max() <= 2


def test_regions_take_the_place_of_words(imagine, decoders):
    def drawn(prompt, subjects, region, seed=0):
        options = {"prompt": prompt, "subjects": subjects, "prior": decoders / "prior"}
        return by_file(imagine(region, seed=seed, **options))

    one = drawn("a photo of a sks dog on a beach", ["dog"], 2)
    assert list(one) == ["region-2_seed-0.png", "cls_seed-0.png"]
    both = drawn("a photo of a dog with a hat", ["dog", "hat"], [2, 3])
    assert list(both) == ["region-2+3_seed-0.png", "cls_seed-0.png"]
    swapped = drawn("a photo of a dog with a hat", ["hat", "dog"], [2, 3])
    assert (both["region-2+3_seed-0.png"] != swapped["region-2+3_seed-0.png"]).any()


def test_the_prior_has_the_seed_of_each_picture(imagine, decoders, drawn):
    words = {"prompt": "a photo of a dog", "subjects": ["dog"], "prior": decoders / "prior"}
    imagine(2, pictures=2, seed=1, **words)
    first, second = (one.embedding for one in drawn[:2])
    assert (first != second).any()
    imagine(2, seed=2, **words)
    np.testing.assert_array_equal(drawn[4].embedding, second)


def test_unclip_takes_a_prompt_of_its_own(imagine, decoders):
    options = {"decoder": "unclip-l", "weights": decoders / "unclip"}
    plain = by_file(imagine(2, **options))
    prompted = by_file(imagine(2, prompt="dog", **options))
    assert (plain["region-2_seed-0.png"] != prompted["region-2_seed-0.png"]).any()


def test_pictures_are_saved_with_their_record_and_replace_nothing(imagine, tmp_path):
    imagined = imagine(2, seed=3)
    files = imagined.save(tmp_path / "new" / "pictures")
    assert [file.name for file in files] == [
        "region-2_seed-3.png",
        "cls_seed-3.png",
        "imagine.json",
    ]
    np.testing.assert_array_equal(skimage.io.imread(files[0]), imagined.pictures[0].pixels)
    record = json.loads(files[-1].read_text())
    assert record["decoder"]["name"] == "kandinsky22"
    assert record["model"] == {"name": "demo", "fingerprint": demo_model().fingerprint}
    assert record["settings"] | {"seed": 3, "steps": 2, "guidance": 7.5} == record["settings"]
    assert set(record["versions"]) == {
        "napari-maskinversion",
        "torch",
        "diffusers",
        "transformers",
    }
    assert record["pictures"][0] == {"file": "region-2_seed-3.png", "regions": [2], "seed": 3}
    before = {file: file.read_bytes() for file in files}
    with pytest.raises(InputError, match="already has region-2_seed-3.png"):
        imagined.save(tmp_path / "new" / "pictures")
    assert {file: file.read_bytes() for file in (tmp_path / "new/pictures").iterdir()} == before


def test_the_drawing_can_be_stopped(imagine):
    def stop(news):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imagine(2, on_progress=stop)


@pytest.mark.parametrize(
    ("region", "options", "says"),
    [
        (99, {}, "no region 99"),
        ([2, 2], {}, "Region 2 is named twice"),
        ([[2, 3], 3], {}, "Region 3 is named twice"),
        ([], {}, "Name the region"),
        (2, {"seed": -1}, "seed must be"),
        (2, {"colour": 1}, "no setting 'colour'"),
        (2, {"steps": 1000, "decoder": "unclip-x"}, "no decoder"),
        (2, {"dtype": "float16", "device": "cpu"}, "cannot draw in float16"),
        (2, {"device": "cuda:9"}, "no device"),
        (2, {"subjects": ["dog"]}, "does not have the subject 'dog'"),
        (2, {"prompt": "a dog"}, "name it as the subject"),
        (2, {"prompt": "a dog", "subjects": ["cat"]}, "does not have the subject 'cat'"),
        (2, {"prompt": "dogs", "subjects": ["dog"]}, "does not have the subject 'dog'"),
        ([2, 3], {"prompt": "a dog", "subjects": ["dog"]}, "2 regions and 1 subjects"),
        (2, {"prompt": "a dog", "subjects": ["dog"]}, "A prompt needs the prior"),
        (2, {"prompt": "a dog", "subjects": ["dog"], "decoder": "unclip-l"}, "kandinsky22"),
        (2, {"model": "ViT-B-16/openai"}, "use that model"),
        (2, {"weights": "/nowhere"}, "put these files of kandinsky-community"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_loaded(
    imagine, monkeypatch, region, options, says
):
    def never(*_, **__):
        raise AssertionError("loaded")

    monkeypatch.setattr(imagining, "load_decoder", never)
    if region != 99:  # whose regions are read only with the model
        monkeypatch.setattr(imagining, "loaded_model", never)
    with pytest.raises(MaskInversionError, match=says) as caught:
        imagine(region, **options)
    assert "\n" not in str(caught.value)


def test_more_steps_than_the_decoder_knows_are_refused(imagine, tmp_path):
    folder = tiny_decoders.kandinsky(tmp_path)
    config = folder / "scheduler" / "scheduler_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_train_timesteps": 10}))
    with pytest.raises(ConfigError, match="trained with 10 steps"):
        imagine(2, weights=folder, steps=11)


def test_memory_is_checked_before_the_model_is_loaded(imagine, monkeypatch):
    monkeypatch.setattr(imagining, "free_memory", lambda _: 10_000)
    with pytest.raises(NotEnoughMemoryError, match="Kandinsky 2.2 in float32 has .* bfloat16"):
        imagine(2)


def test_without_diffusers_the_extra_is_named(imagine, monkeypatch):
    monkeypatch.setattr(imagining, "find_spec", lambda name: None if name == "diffusers" else 1)
    with pytest.raises(
        ModelError, match=r"diffusers, which is not installed: pip install \"napari"
    ):
        imagine(2)


def test_a_prior_of_another_model_is_refused(imagine, tmp_path):
    folder = tiny_decoders.prior(tmp_path, width=64)
    with pytest.raises(ModelError, match="embeddings of 64 values"):
        imagine(2, prompt="a dog", subjects=["dog"], prior=folder)


def test_diffusers_is_imported_only_to_draw():
    code = (
        "import sys, napari_maskinversion as nmi, napari_maskinversion.cli.app as _\n"
        "nmi.imagine\n"
        "print(sorted({'diffusers', 'transformers', 'torch'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
