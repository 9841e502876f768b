"""Hook of mkdocs: links from pages to files outside docs/ lead to the repository.

So one link works in a checkout, on the repository's pages and on the site. Text that is included
from the repository's root has links as if it were one folder below; those to pages lead to pages. A
file that is not there stays as it is written, and the strict build refuses it.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((\.\./[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Rewrite the page's links that leave docs/."""
    folder = posixpath.dirname(page.file.src_uri)
    repository = f"{config.repo_url}/blob/main/"

    def shown(link):
        as_written = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        from_root = posixpath.normpath(link[1]).removeprefix("../")
        for path in (as_written, from_root):
            if (ROOT / path).exists():
                page_link = posixpath.relpath(path, posixpath.join("docs", folder))
                where = page_link if path.startswith("docs/") else f"{repository}{path}"
                return f"]({where}{link[2] or ''})"
        return link[0]

    return LINK.sub(shown, markdown)
