"""Each setting, and each question whether something still fits: the answers of a table.

The table was written before there was one answer to them all; ``recipe_questions`` asks. A new
setting is one more line of it.
"""

import csv

import pytest

from napari_maskinversion.batch.finished import Finished, differences, write_finished
from napari_maskinversion.results.recipe import PARTS, Recipe, Weights
from napari_maskinversion.results.settings import RunSettings, fields_of

from .recipe_questions import QUESTIONS, ROWS, TABLE, World, answers

# Where two questions disagreed for no reason, the safe answer.
SAFER = {
    # Another architecture is another model; all but one question knew.
    ("architecture: ViT-B-32", "find"): "other",
    # Other weights of a method are another method; the results file says which, and was not asked.
    ("method.weights: alpha.pth", "results_file"): "weights None instead of alpha.pth",
    # The key that limits are kept by names the map, of a fusion too.
    (
        "inversion.explainer: chefer (with method.name maskinversion+crop)",
        "calibration",
    ): "weights, method or map",
}
# What a batch and a project call settings that said "computed from other name" or "other mode".
WORDS = {"name": "method", "mode": "window", "side": "window", "mode; side": "window"}


def table():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = {row.pop("change"): row for row in csv.DictReader(file)}
    for title, question in SAFER:
        rows[title][question] = SAFER[title, question]
    for row in rows.values():
        for question in ("batch", "project"):
            row[question] = WORDS.get(row[question], row[question])
    return rows


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_what_is_changed_makes_no_other_difference_than_in_the_table(row, tmp_path):
    assert answers(row, tmp_path) == table()[row.title]


def test_the_table_asks_twelve_questions_about_every_setting():
    assert table().keys() == {row.title for row in ROWS}
    assert {row.change for row in ROWS} >= {setting.key for setting in fields_of()}
    assert len(QUESTIONS) == 12


def test_what_one_of_two_recipes_does_not_know_is_no_difference():
    known = Recipe.of_settings(RunSettings())
    assert not Recipe().differences(known)
    assert not known.differences(Recipe(embedding={"weights": Weights("abc")}))
    (difference,) = known.differences(Recipe(embedding={"inversion.steps": 3, "another": 1}))
    assert (difference.part, difference.name) == ("embedding", "steps")
    assert difference.text == "steps 10 instead of 3"


def test_a_model_under_another_name_is_the_same_by_its_hash():
    recipes = [Recipe(embedding={"weights": Weights("abc", name)}) for name in ("demo", "a/demo")]
    assert not recipes[0].differences(recipes[1])
    (difference,) = recipes[0].differences(Recipe(embedding={"weights": Weights("fed", "other")}))
    assert difference.text == "model demo instead of other"


def test_each_setting_but_those_of_the_machine_has_a_part():
    recipe = Recipe.of_settings(RunSettings())
    facts = [key for part in PARTS for key in getattr(recipe, part)]
    assert sorted(facts) == sorted(
        setting.key for setting in fields_of() if setting.key not in ("device", "chunk_size")
    )


def test_a_mark_with_a_setting_of_another_version_does_not_fit(tmp_path):
    task = World(RunSettings()).task(tmp_path)
    task.archive.mkdir(parents=True)
    finished = Finished.of(task)
    lacking = {key: value for key, value in finished.settings.items() if key != "keep_aspect"}
    for settings, names in (
        (finished.settings, []),
        ({**finished.settings, "sharpen": True}, ["sharpen"]),
        (lacking, ["keep_aspect"]),
    ):
        write_finished(finished.model_copy(update={"settings": settings}), task.archive)
        assert differences(task) == names
