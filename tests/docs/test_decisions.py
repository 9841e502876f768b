"""Decisions are numbered, dated, measured and listed; the architecture has eight recipes."""

import re

import pytest

from .conftest import DOCS

FOLDER = DOCS / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))
PARTS = ["Context", "Decision", "Rejected", "Measured by"]


def title_of(page):
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def test_decisions_are_numbered_from_one_without_a_gap():
    numbers = [int(page.name[:4]) for page in PAGES]
    assert numbers == list(range(1, len(PAGES) + 1))
    assert len(PAGES) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_a_number_a_date_and_four_parts(page):
    text = page.read_text("utf-8")
    assert title_of(page).startswith(f"{int(page.name[:4])}. ")
    assert (
        re.findall(r"^\*\*([A-Z][a-z ]+?)(?: \(2\d{3}-\d\d-\d\d\)\.|\.)?\*\*", text, re.M) == PARTS
    )
    assert re.search(r"^\*\*Context \(2\d{3}-\d\d-\d\d\)\.\*\*", text, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_names_what_measures_it(page):
    measured = page.read_text("utf-8").partition("**Measured by**")[2]
    assert re.search(r"`(benchmarks|tests)/[\w/.-]+`", measured)


def test_the_index_lists_every_decision_by_its_title_and_date():
    index = (FOLDER / "index.md").read_text("utf-8")
    listed = re.findall(r"^- \[(.+)\]\((.+)\) \((.+)\)$", index, re.M)
    dates = {
        page: re.search(r"\((2\d{3}-\d\d-\d\d)\)", page.read_text("utf-8"))[1] for page in PAGES
    }
    expected = [(title_of(page), page.name, dates[page]) for page in PAGES]
    assert sorted(listed, key=lambda line: line[1]) == expected


def test_there_are_eight_recipes():
    text = (DOCS / "contributing" / "architecture.md").read_text("utf-8")
    recipes = text.partition("## Eight changes")[2].partition("\n## ")[0]
    assert recipes.count("\n### ") == 8
