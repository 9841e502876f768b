"""Commands of README and of the pages that explain and list have options that there are."""

import pytest

from .conftest import DOCS
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
