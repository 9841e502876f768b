"""Each setting, and each question whether something still fits: the answers of a table.

The table was written before there was one answer to them all; ``recipe_questions`` asks. A new
setting is one more line of it.
"""

import csv

import pytest

from napari_maskinversion.results.settings import fields_of

from .recipe_questions import QUESTIONS, ROWS, TABLE, answers

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
