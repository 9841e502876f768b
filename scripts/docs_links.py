"""Hook of mkdocs: links of pages to files of the repository outside docs/ lead to the repository.

So one link works in a checkout, on the repository's pages and on the site. A file that is not there
stays as it is written, and the strict build refuses it.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((\.\./[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Rewrite the page's links that leave docs/."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def to_repository(link):
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if path.startswith("docs/") or not (ROOT / path).exists():
            return link[0]
        return f"]({config.repo_url}/blob/main/{path}{link[2] or ''})"

    return LINK.sub(to_repository, markdown)
