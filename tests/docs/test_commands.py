"""Commands of README and of the pages that explain and list have options that there are."""

import re

import pytest

from .conftest import DOCS, ROOT, text_of
from .test_pages import PROGRAM, blocks_of, check_options

PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in (
        *DOCS.glob("concepts/*.md"),
        *DOCS.glob("reference/*.md"),
        DOCS / "faq.md",
        DOCS / "install.md",
    )
)


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_commands_have_options_that_exist(page):
    for block in blocks_of(page):
        for words in block.commands if block.language == "bash" else ():
            if words[0] == PROGRAM:
                check_options(words)


SINGLE = re.compile(r"(?:^|\s)'[^'\n]+'(?:\s|$)", re.M)


def test_no_command_has_single_quotes_which_windows_keeps(menu):
    """cmd.exe passes them on; then there is no file of that name."""
    for page in menu:
        text = text_of(page)
        shell = "\n".join(re.findall(r"^ *```bash\n(.*?)```", text, re.S | re.M))
        assert not SINGLE.search(shell), page
        spans = re.findall(r"`([^`\n]+)`", text)
        assert [one for one in spans if SINGLE.search(one) and ("*" in one or "[" in one)] == []


def test_no_help_of_a_command_has_single_quotes_around_a_pattern():
    for path in (ROOT / "src" / "napari_maskinversion" / "cli").rglob("*.py"):
        assert not re.search(r"'[\w/]*\*[\w./]*'", path.read_text("utf-8")), path
