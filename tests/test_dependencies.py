"""pyproject.toml declares what is imported, and nothing else."""

import ast
import functools
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Declared, though nothing imports them by name.
UNNAMED = {
    "timm": "image towers of open-clip-torch, whose parts the engine reads",
    "accelerate": "diffusers reads weights with it, without a second copy in memory",
    "pyside6": "the Qt of qtpy",
    "bioio-lif": "a reader of bioio",
    "bioio-nd2": "a reader of bioio",
    "pyogrio": "what geopandas writes GeoPackage with",
    "setuptools": "pkg_resources, which spatialdata needs",
}
# Of the tests: commands, plugins of pytest, and what builds a wheel.
RUN = {"build", "hatchling", "pytest-qt", "pytest-timeout"}


distributions = functools.cache(packages_distributions)


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*groups):
    names = (re.match(r"[\w.-]+", text)[0] for group in groups for text in group)
    return {plain(name) for name in names}


@functools.cache
def imported(folder):
    """Return the distributions of other projects that the modules of a folder import."""
    of_module = distributions()
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.split(".")[0])
    # PyTorch's builds for CUDA bring triton.
    names -= {*sys.stdlib_module_names, "napari_maskinversion", "tests", "triton"}
    return {plain(of_module.get(name, [name])[0]) for name in names}


def test_the_package_imports_what_it_declares_and_nothing_else():
    ours = declared(
        PROJECT["dependencies"], *(EXTRAS[n] for n in EXTRAS if n not in ("test", "dev", "docs"))
    )
    assert imported(ROOT / "src") == ours - UNNAMED.keys()
    assert UNNAMED.keys() <= ours


def test_what_an_import_needs_is_always_installed():
    """Only what a command asks for by name is an extra."""
    extras = [
        "batch",
        "bench",
        "bioio",
        "captioning",
        "diffusion",
        "map",
        "sam2",
        "spatial",
        "tokenizers",
    ]
    optional = declared(*(EXTRAS[name] for name in extras)) - UNNAMED.keys()
    always = declared(PROJECT["dependencies"])
    assert not optional & always
    assert imported(ROOT / "src") - always <= optional


def test_the_tests_import_what_they_declare():
    used = imported(ROOT / "tests")
    own = {plain(path.stem) for path in (ROOT / "benchmarks").glob("*.py")}
    own |= {"benchmarks", "research"}
    always, extra = declared(PROJECT["dependencies"]), declared(EXTRAS["test"])
    assert used - own - always - UNNAMED.keys() <= extra
    tested = imported(ROOT / "src") | imported(ROOT / "benchmarks")
    assert extra <= used | tested | UNNAMED.keys() | RUN


@pytest.mark.full  # it says more of the machine
def test_installed_packages_fit_each_other():
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_page_of_licences_lists_what_is_declared():
    script = runpy.run_path(str(ROOT / "scripts" / "licences.py"))
    rows = re.findall(r"^\| ([\w.-]+) \| (.+) \| .+ \|$", script["PAGE"].read_text("utf-8"), re.M)
    listed = {plain(name): licence for name, licence in rows[1:]}
    assert listed.keys() == {plain(name) for name in script["declared"]()}
    assert not any("UNKNOWN" in licence for licence in listed.values())
