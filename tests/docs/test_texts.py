"""Controls and error messages that pages name are texts of the code."""

import ast
import re

import pytest

from napari_maskinversion.diffusion.decoders import DECODERS
from napari_maskinversion.engine.models.registry import list_models
from napari_maskinversion.regions.sam.sam_checkpoints import CHECKPOINTS

from .conftest import DOCS, ROOT
from .test_pages import PAGES

SOURCE = ROOT / "src" / "napari_maskinversion"
# Controls of other programs, and words in italics that name none.
OTHERS = {
    "Save Features As",  # QGIS
    "Save Selected Layers",  # napari
    "Export task dataset",  # CVAT
    "Save masks and image",  # Cellpose
    "Export Annotations",  # VGG Image Annotator
    "as json",
    "Semantic segmentation of aerial imagery",
    "that the demo model does not know",  # put together from two texts
    "debris",
}
NOT_OURS = {"Could not load the Qt platform plugin xcb", "Got unexpected extra argument(s)"}
CODE = re.compile(r"```.*?```|`[^`]*`|\{\{.*?\}\}", re.S)
NAME = re.compile(r"(?<![\w*])(?:\*\*\*|\*\*|\*)([^*]+?)\*{1,3}(?![\w*:])")
VALUES = re.compile(r"\.\.\.|\d[\d,]*(?: words?)?|\bN\b|[:(),]")


@pytest.fixture(scope="module")
def texts():
    """All texts of the code but docstrings, with "..." for values; those of the manifest too."""
    found = [(SOURCE / "napari.yaml").read_text("utf-8")]
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if id(node) in docstrings:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", "...") for part in node.values)
                found.append("".join(p if isinstance(p, str) else "..." for p in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(" ".join(one.split()) for one in found)


def parts_of(name):
    """The texts in a name, without values and menus."""
    parts = (part.strip() for step in name.split(" > ") for part in VALUES.split(step))
    return [part for part in parts if part]


@pytest.mark.parametrize("page", [*PAGES, "faq.md", "install.md"])
def test_controls_that_a_page_names_are_those_of_the_window(page, texts):
    text = " ".join(CODE.sub("", (DOCS / page).read_text("utf-8")).split())
    names = [name for name in NAME.findall(text) if not name.endswith(".") or "..." in name]
    missing = {part for name in names for part in parts_of(name) if part not in texts}
    assert missing <= OTHERS


def test_messages_that_the_faq_explains_are_those_of_the_code(texts):
    headings = re.findall(r"^### (.*)$", (DOCS / "faq.md").read_text("utf-8"), re.M)
    quoted = {message for heading in headings for message in re.findall('"(.+?)"', heading)}
    assert len(quoted) > 10
    for message in quoted - NOT_OURS:
        for part in parts_of(message):
            assert part in texts, message


def test_sizes_of_downloads_are_those_of_the_code():
    sizes = {one.name: one.size_text for one in (*list_models(), *CHECKPOINTS.values())}
    sizes |= {name: f"{one.size_gb:.1f} GB" for name, one in DECODERS.items()}
    found = {}
    for page in ("howto/sam.md", "howto/imagine.md"):
        lines = (DOCS / page).read_text("utf-8").splitlines()
        text = "\n".join(line for line in lines if line.startswith("|"))
        for name, size in re.findall(r"`([\w./-]+)`[^`]*?(\d[\d.]* [MG]B)", text):
            found[name] = size
    assert len(found) == 11
    assert found == {name: sizes[name] for name in found}
    assert f"Fetch {sizes['ViT-B-16/openai']}" in (DOCS / "tutorials/photographs.md").read_text()
