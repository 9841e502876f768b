"""Each setting, and each question whether something still fits: the answers of a table.

The table was written before there was one answer to them all; ``recipe_questions`` asks.
"""

import csv

import pytest

from .recipe_questions import QUESTIONS, ROWS, TABLE, answers


def table():
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row.pop("change"): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_what_is_changed_makes_no_other_difference_than_in_the_table(row, tmp_path):
    assert answers(row, tmp_path) == table()[row.title]


def test_the_table_asks_twelve_questions_about_every_change():
    assert table().keys() == {row.title for row in ROWS}
    assert len(QUESTIONS) == 12
