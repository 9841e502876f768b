"""The site builds without a warning and without a network, and says enough, not too much."""

import html
import re

import pytest
import typer
import yaml

from napari_maskinversion._napari.widgets.keys import KEYS
from napari_maskinversion.base.preferences import Preferences
from napari_maskinversion.cli.app import app
from napari_maskinversion.engine.models.registry import list_models
from napari_maskinversion.results.columns import columns_in
from napari_maskinversion.results.export.catalogue import FORMATS
from napari_maskinversion.results.settings import fields_of

from .conftest import ADDRESS, DOCS, REPOSITORY, ROOT, links_of, text_of

GENERATED = {"reference/licences.md"}
NO_FIGURES = {"100 %", "95 %", "90 %"}  # the whole, an interval, a setting of the panel
FENCED_BLOCK = re.compile(r"```.*?```", re.S)
FENCED = re.compile(r"```.*?```|`[^`]*`|\{\{.*?\}\}", re.S)
CODE = re.compile(r"<(pre|code|script|style)\b.*?</\1>", re.S)
MARKUP = re.compile(r"\+\+\w[\w+-]*\+\+|\{\{|\]\(|\*\*[a-z]|!!! |```", re.I)
REFERENCE = {
    "command-line": typer.main.get_command(app).commands,
    "settings": [*(one.key for one in fields_of()), *Preferences.model_fields],
    "models": [spec.name for spec in list_models()],
    "formats": [*FORMATS, *(column.name for column in columns_in("files"))],
    "keys": [key.effect for key in KEYS],
}


@pytest.mark.full
def test_the_site_builds_strictly_and_has_every_page(site):
    pages = {path.parent.relative_to(site).as_posix() for path in site.rglob("index.html")}
    written = [path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")]
    names = {(path.parent if path.name == "index" else path).as_posix() for path in written}
    assert names <= pages


def shown(page, code=True):
    """Return what a reader sees of a built page's text, with or without code."""
    (article,) = re.findall(r"<article.*?</article>", page.read_text("utf-8"), re.S)
    text = re.sub(r"<[^>]+>", "", article if code else CODE.sub("", article))
    return html.unescape(text)


@pytest.mark.full
def test_no_markup_is_left_on_a_page(site):
    """A key or a link that is written wrong shows as it was typed."""
    left = {page: MARKUP.findall(shown(page, code=False)) for page in site.rglob("index.html")}
    assert {page: found for page, found in left.items() if found} == {}


@pytest.mark.full
@pytest.mark.parametrize("page", REFERENCE)
def test_a_page_of_the_reference_lists_all_that_the_code_has(site, page):
    text = " ".join(shown(site / "reference" / page / "index.html").split())
    assert [name for name in REFERENCE[page] if name not in text] == []


@pytest.mark.full
def test_no_page_asks_another_server_for_anything(site):
    ours = (ADDRESS, REPOSITORY)
    for page in site.rglob("index.html"):
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*?(?:src|href)="(https?://[^"]+)"',
            page.read_text("utf-8"),
        )
        assert [address for address in loaded if not address.startswith(ours)] == [], page


def test_what_users_read_can_be_read_in_an_afternoon(menu):
    of_others = ("lab/", "decisions/", "contributing/", *GENERATED)
    pages = [page for page in menu if not page.startswith(of_others)]
    words = {page: len(text_of(page).split()) for page in pages}
    assert sum(words.values()) < 22_000, words


def test_all_pages_have_few_words_outside_of_examples_and_tables():
    """Words with a letter, without fenced code, of every page: of the decisions, too."""
    texts = [FENCED_BLOCK.sub("", page.read_text("utf-8")) for page in DOCS.rglob("*.md")]
    words = [word for text in texts for word in text.split() if re.search(r"\w", word)]
    assert len(words) < 26_000


@pytest.mark.full
def test_the_notebook_is_shown_as_it_runs(site):
    text = (site / "tutorials" / "python" / "index.html").read_text("utf-8")
    assert re.search(r'<img[^>]*src="data:image/png', text)  # the heatmap
    assert "<th>suggestion</th>" in text
    assert not list((DOCS / "tutorials").glob("regions.*"))


def test_files_that_pages_include_count_as_words():
    assert "Keep a Changelog" in text_of("changelog.md")
    assert "import-linter" in text_of("contributing/index.md")


def test_figures_are_not_typed(menu):
    """Shares come from `benchmarks/results` by macros."""
    typed = {}
    for page in menu:
        shares = set(re.findall(r"\d[\d.]* %", FENCED.sub("", text_of(page)))) - NO_FIGURES
        if shares and page not in GENERATED:
            typed[page] = shares
    assert typed == {}


def test_pages_that_code_and_changelog_name_are_there():
    files = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    for folder in ("src", "tests", "scripts", "benchmarks"):
        files += (ROOT / folder).rglob("*.py")
    named = {
        page
        for path in files
        for page in re.findall(r"docs/[\w/-]+\.(?:md|ipynb)", path.read_text("utf-8"))
    }
    missing = {page for page in named if not (ROOT / page).is_file()}
    assert missing <= {"docs/development.md"}  # how the laboratory notes were called once


@pytest.mark.full
def test_readme_is_short_and_leads_to_what_is_there(site):
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) < 120
    assert text.startswith("# napari-maskinversion\n")
    raw = "https://raw.githubusercontent.com/napari-maskinversion/napari-maskinversion/main/"
    for link in links_of(text):
        if link.startswith(ADDRESS):
            page, _, anchor = link.removeprefix(ADDRESS).partition("#")
            shown = (site / page / "index.html").read_text("utf-8")
            assert not anchor or f'id="{anchor}"' in shown, link
        elif link.startswith((raw, f"{REPOSITORY}blob/main/")):
            path = link.removeprefix(raw).removeprefix(f"{REPOSITORY}blob/main/")
            assert (ROOT / path).is_file(), link
        else:
            assert link.startswith("https://"), f"{link} breaks on the package index"


@pytest.mark.parametrize("command", ["bash scripts/demo.sh", "bash scripts/test.sh"])
def test_readme_keeps_the_two_commands(command):
    assert command in (ROOT / "README.md").read_text("utf-8")


def test_readme_names_the_paper_and_its_authors():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["preferred-citation"]
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    names = [f"{who['given-names']} {who['family-names']}" for who in cited["authors"]]
    for part in (*names, cited["title"], cited["conference"]["name"], cited["url"]):
        assert part in text
