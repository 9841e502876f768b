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

    def shown(link):
        path = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        at_root = posixpath.normpath(link[1]).removeprefix("../")
        if at_root.startswith("docs/"):
            path = at_root
        anchor = link[2] or ""
        if path.startswith("docs/"):
            to_page = posixpath.relpath(path.removeprefix("docs/"), folder or ".")
            return f"]({to_page}{anchor})"
        if not (ROOT / path).exists():
            path = at_root
        if not (ROOT / path).exists():
            return link[0]
        return f"]({config.repo_url}/blob/main/{path}{anchor})"

    return LINK.sub(shown, markdown)
