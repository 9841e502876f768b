"""Commands and Python of the quickstart, the tutorials and the how-tos run as they stand there.

Each page runs from top to bottom in a folder of its own, which holds ``photo.png`` and
``masks.png`` of the quickstart. The bundled model stands in for a real CLIP, and tiny decoders with
random weights for those that draw; they draw little in few steps. What a test cannot
run has a mark above it with one of the reasons below: ``<!-- not run: needs the network -->``;
its options are checked all the same.
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import typer

import napari_maskinversion as nmi
from napari_maskinversion.cli import captions, find, imagine, rollout, run
from napari_maskinversion.cli.app import app
from napari_maskinversion.cli.bench import data_sets
from napari_maskinversion.cli.bench import paper as bench_paper
from napari_maskinversion.diffusion import decoders
from napari_maskinversion.engine.models.registry import get_spec
from tests import tiny_decoders
from tests.bench.datasets.archives import SETS
from tests.scenes import demo_model

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = DOCS.parent / "scripts" / "docs_pictures.py"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in (DOCS / "quickstart.md", *DOCS.glob("tutorials/*.md"), *DOCS.glob("howto/*.md"))
)
PROGRAM = "napari-maskinversion"
REASONS = {
    "needs the network",
    "needs a window",
    "needs a GPU",
    "needs a checkpoint of Segment Anything",
    "needs files of your own",
}
FENCE = re.compile(r"(?:<!-- not run: (.+?) -->\n+)?^```(\w*)[^\n]*\n(.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and why it is not run ("": it is)."""

    language: str
    text: str
    reason: str

    @property
    def commands(self):
        """The words of each command of a shell block."""
        lines = self.text.replace("\\\n", " ").splitlines()
        words = (shlex.split(line, comments=True) for line in lines)
        return [line for line in words if line]


def blocks_of(page):
    text = (DOCS / page).read_text("utf-8")
    return [Block(language, code, reason) for reason, language, code in FENCE.findall(text)]


program = functools.cache(lambda: typer.main.get_command(app))


def check_options(words):
    """Parse a command without running it."""
    command, rest = program(), list(words[1:])
    while hasattr(command, "commands"):
        assert rest[0] in command.commands, f"{shlex.join(words)}: no command {rest[0]}"
        command = command.commands[rest.pop(0)]
    options = {name for parameter in command.params for name in parameter.opts}
    options |= {name for parameter in command.params for name in parameter.secondary_opts}
    unknown = {word for word in rest if word.startswith("--")} - options - {"--help"}
    assert not unknown, f"{shlex.join(words)}: no option {unknown}"


def stand_in(model):
    """Load a model by its name, or by settings."""
    get_spec(getattr(model, "model", model))  # refuses names that there are not
    return demo_model()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Decoders for the bundled model."""
    folder = tmp_path_factory.mktemp("decoders")
    tiny_decoders.kandinsky(folder / "kandinsky-2-2-decoder")
    tiny_decoders.unclip(folder / "stable-diffusion-2-1-unclip-small")
    tiny_decoders.prior(folder / "Lambda-ECLIPSE-Prior-v1.0")
    return folder


@pytest.fixture
def can_draw(tiny, own_cache_folder, monkeypatch):
    shutil.copytree(tiny, own_cache_folder / "diffusion")
    quick = {name: replace(d, steps=2, size=64) for name, d in decoders.DECODERS.items()}
    monkeypatch.setattr(decoders, "DECODERS", quick)


@pytest.fixture
def reader(tmp_path, monkeypatch, call, request):
    """Somebody who follows a page in an empty folder."""
    monkeypatch.chdir(tmp_path)
    commands = (run, find, captions, rollout, data_sets, bench_paper, imagine)
    for module in commands:
        monkeypatch.setattr(module, "load", stand_in)
    monkeypatch.setattr(nmi, "load_model", stand_in)

    def follow(blocks, page):
        if any("imagine" in block.text for block in blocks):
            request.getfixturevalue("can_draw")
        names = {}
        for block in blocks:
            if block.reason:
                continue
            if block.language == "python":
                exec(compile(block.text, page, "exec"), names)
            for words in block.commands if block.language == "bash" else ():
                assert words[0] == PROGRAM, f"{page}: {words[0]} cannot be run here"
                code, _, err = call(*words[1:])
                assert code == 0, f"{page}: {shlex.join(words)}\n{err}"
        return names

    return follow


@pytest.fixture
def files(reader):
    """``photo.png`` and ``masks.png``, as the quickstart makes them."""
    first = next(b for b in blocks_of("quickstart.md") if "photo.png" in b.text)
    assert (first.language, first.reason) == ("python", "")
    reader([first], "quickstart.md")


@pytest.fixture
def sets(tmp_path):
    """Tiny copies of the paper's data sets, in the folder ``sets``."""
    for name in ("voc", "coco", "context", "openimages"):
        SETS[name](tmp_path / "sets")


def test_there_are_pages():
    assert {page.partition("/")[0] for page in PAGES} == {"quickstart.md", "tutorials", "howto"}
    assert sum(block.language in ("bash", "python") for p in PAGES for block in blocks_of(p)) > 40


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs(page, files, reader, request):
    if page == "howto/paper.md":
        request.getfixturevalue("sets")
    reader(blocks_of(page), page)


def test_python_and_command_line_find_the_same_regions(files, reader, call):
    page = "howto/captions.md"
    blocks = [b for b in blocks_of(page) if b.language == "python" and "photo.png" in b.text]
    ranked = reader(blocks, page)["ranked"]
    code, out, _ = call("find", "photo.png", "masks.png", "the green frog")
    assert code == 0
    assert [int(row) for row in re.findall(r"^│ +\d+ │ +(\d+) │", out, re.M)] == ranked


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_has_a_reason_and_options_that_exist(page):
    text = (DOCS / page).read_text("utf-8")
    skipped = [block for block in blocks_of(page) if block.reason]
    assert len(skipped) == text.count("<!-- not run"), "a mark stands directly above a block"
    for block in skipped:
        assert block.reason in REASONS
        assert block.language in ("bash", "python")
        if block.language == "python":
            compile(block.text, page, "exec")
        for words in block.commands if block.language == "bash" else ():
            if words[0] == PROGRAM:
                check_options(words)


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks_that_are_run(page):
    """A block in another language, or an indented one, would hide a command from these tests."""
    text = (DOCS / page).read_text("utf-8")
    others = [b.text for b in blocks_of(page) if b.language not in ("bash", "python")]
    assert not [one for one in others if PROGRAM in one or "import " in one]
    assert not re.findall(rf"^ +{PROGRAM} .*", FENCE.sub("", text), re.M)


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_in_a_sentence_exist(page):
    for inline in re.findall(rf"`({PROGRAM}(?: [^`]+)?)`", (DOCS / page).read_text("utf-8")):
        words = shlex.split(inline)
        if len(words) > 1:
            check_options(words)


@pytest.mark.parametrize("page", PAGES)
def test_pictures_come_in_both_themes_from_the_script_that_makes_them(page):
    text = (DOCS / page).read_text("utf-8")
    shown = re.findall(r"!\[.+?\]\((?:\.\./)?images/(.+?)-(light|dark)\.png#only-(\w+)\)", text)
    assert len(shown) == text.count("![")
    assert all(theme == seen_in for _, theme, seen_in in shown)
    for name in {name for name, *_ in shown}:
        assert {theme for one, theme, _ in shown if one == name} == {"light", "dark"}
        assert f'"{name}"' in PICTURES.read_text("utf-8")
        assert (DOCS / "images" / f"{name}-light.png").is_file()
