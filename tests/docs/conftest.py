"""The pages of the menu, and the site, built once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ADDRESS = "https://napari-maskinversion.github.io/napari-maskinversion/latest/"
REPOSITORY = "https://github.com/napari-maskinversion/napari-maskinversion/"


def pages_of(menu):
    """Return the pages of a menu of mkdocs.yml, in order."""
    if isinstance(menu, str):
        return [menu]
    entries = menu.values() if isinstance(menu, dict) else menu
    return [page for entry in entries for page in pages_of(entry)]


def text_of(page):
    """Return the text of a page as it was written, with the files that it includes.

    A notebook's is that of its cells.
    """
    text = (DOCS / page).read_text("utf-8")
    for name in re.findall(r'\{\{ included\("(.+?)"\) \}\}', text):
        text += (ROOT / name).read_text("utf-8")
    if page.endswith(".ipynb"):
        return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return text


@pytest.fixture(scope="session")
def menu():
    # The tags of mkdocs.yml for Python objects stand for nothing here.
    yaml.SafeLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    return pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    # A proxy that nobody listens at: what asks for a network fails.
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    nowhere = dict.fromkeys(names, "http://127.0.0.1:9")
    # Not with --quiet: warnings that are not shown do not count as such.
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def links_of(text):
    """Return where Markdown links and pictures lead."""
    return re.findall(r"\]\(([^)\s]+)\)", text)
