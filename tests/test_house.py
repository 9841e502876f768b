"""The layout of the package: what CONTRIBUTING.md and architecture.md promise a newcomer."""

import ast
import csv
import functools
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

from tests import house_counts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "napari_maskinversion"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))
TEST_MODULES = sorted(TESTS.rglob("*.py"))
RESEARCH = sorted((ROOT / "research").rglob("*.py"))
COMMANDS_OF_BENCHMARKS = sorted((ROOT / "benchmarks").glob("*/*.py"))
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


@functools.cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def docstrings(path):
    """Yield (line, first word) of every docstring of a module."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes_of(path):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text.split(maxsplit=1)[0]


def assigned_names(path):
    """Yield (line, name) of every variable and parameter of a module."""
    for node in nodes_of(path):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def test_the_root_of_the_package_holds_packages_only():
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed", "napari.yaml"}


def test_nothing_lies_flat_in_the_plugin():
    files = {path.name for path in (SOURCE / "_napari").glob("*.py")}
    assert files == {"__init__.py"}


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_package_holds_at_most_twenty_modules_and_says_what_it_is(package):
    modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= 20
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)


def test_tests_mirror_the_source():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    packages = {path.relative_to(SOURCE) for path in PACKAGES}
    own = ("benchmarks", "docs", "field", "fuzz", "kill", "research/demo_model")
    assert folders <= packages | {Path(name) for name in own}


def test_the_architecture_names_every_package():
    text = (ROOT / "docs/contributing/architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Packages")[2].partition("\n## ")[0]
    named = set(re.findall(r"^- `([a-z_/]+)`:", table, flags=re.M))
    holding_modules = {
        name_of(package)
        for package in PACKAGES
        if package != SOURCE and any(path.name != "__init__.py" for path in package.glob("*.py"))
    }
    assert named == holding_modules


FOLDERS_OF_FILES = "benchmarks|docs|packages|research|scripts|src|tests"
A_FILE = re.compile(rf"[\w./-]+\.py|(?:{FOLDERS_OF_FILES})/[\w./-]+\w")
IN_CODE = re.compile(r"`([^`\n]+)`")


def files_named(text):
    """Yield the files of the repository, and modules, that code in a sentence names."""
    for code in IN_CODE.findall(text):
        yield from (word for word in code.split() if A_FILE.fullmatch(word) and "NAME" not in word)


def test_pages_name_files_that_exist():
    """Paths start at the repository's root, at the package, or at the page's own folder."""
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("benchmarks/README.md")]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [*pages, *ROOT.glob("research/**/*.md")]
        for name in files_named(page.read_text(encoding="utf-8"))
        if not any((folder / name).exists() for folder in (ROOT, SOURCE, page.parent))
    ]
    assert missing == []


NAME_IN_CODE = re.compile(r"[A-Z]\w*[a-z]\w*(\.\w+)?|\w+_\w+|_?[A-Z]{3,}")


def test_the_architecture_names_what_the_code_has():
    """Classes, functions and constants, such as `Job.run`, `atomic_path` and `_TOPICS`."""
    text = (ROOT / "docs/contributing/architecture.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    packages = {package.name for package in PACKAGES}
    names = {name.partition("(")[0] for name in IN_CODE.findall(text) if "/" not in name} - packages
    names = {name for name in names if NAME_IN_CODE.fullmatch(name)}
    assert len(names) > 20
    defined = r"\b(?:class|def) {0}\b|^{0}\b|\b{0}(?::| =)|\"{0}\""
    missing = {
        name
        for name in names
        for part in name.split(".")
        if not re.search(defined.format(re.escape(part)), code, re.M)
    }
    assert missing == set()


def test_the_architecture_is_read_in_ten_minutes():
    text = (ROOT / "docs/contributing/architecture.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1200, "what is more is a decision: docs/decisions"


def test_a_decision_has_fifteen_lines():
    pages = (ROOT / "docs/decisions").glob("0*.md")
    assert [page.name for page in pages if page.read_text("utf-8").count("\n") > 15] == []


ENGLISH = ROOT / "docs" / "contributing" / "english.md"
TURN = re.compile(r"^- (.+?)(?: \(.+\))? → .+$", re.M)


def test_pages_have_no_turn_that_readers_stumble_over():
    turns = [turn for line in TURN.findall(ENGLISH.read_text("utf-8")) for turn in line.split(", ")]
    assert len(turns) > 40
    pages = [page for kind in ("md", "ipynb", "csv") for page in (ROOT / "docs").rglob(f"*.{kind}")]
    pages += [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
    pages += [ROOT / "benchmarks" / "README.md", *(ROOT / "research").rglob("README.md")]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, turns))})\b", re.I)
    odd = [
        f"{page.relative_to(ROOT)}: {turn}"
        for page in pages
        if page != ENGLISH
        for turn in pattern.findall(page.read_text("utf-8"))
    ]
    assert odd == []


@pytest.mark.parametrize("word", ["Give", "Gives"])
def test_docstrings_say_what_happens(word):
    vague = [
        f"{name_of(path)}:{line}" for path in MODULES for line, w in docstrings(path) if w == word
    ]
    assert vague == []


# Where the documentation shows docstrings (docs/reference/python.md): these names, and what they
# inherit from. Everywhere else a docstring is a sentence or two.
API = {
    "base/errors.py": {"*"},
    "base/regions.py": {"Regions"},
    "diffusion/generated_pictures.py": {"Imagined"},
    "engine/invert/inverter.py": {"MaskInverter", "RegionEmbedder"},
    "engine/invert/loop.py": {"InversionResult"},
    "engine/methods/factory.py": {"region_embedder"},
    "engine/methods/registry.py": {"list_methods"},
    "engine/models/loading.py": {"load_model", "wrap_open_clip"},
    "engine/models/registry.py": {"list_models"},
    "engine/settings.py": {"InversionConfig"},
    "images/opening.py": {"read_image"},
    "learning/classifier.py": {"Classifier"},
    "library/library.py": {"Library"},
    "pipeline/finding.py": {"Found", "find_regions"},
    "pipeline/imagining.py": {"imagine"},
    "pipeline/labelling.py": {"label_regions"},
    "regions/region_reading.py": {"read_regions"},
    "results/export/catalogue.py": {"export"},
    "results/results.py": {"Results"},
    "results/settings.py": {"RunSettings"},
}


def with_sections(path):
    """Yield the names at the top of a module whose docstrings, or members', have sections."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for top in nodes_of(path)[0].body:
        inside = [node for node in ast.walk(top) if isinstance(node, kinds)]
        if any(re.search(r"^-{3,}$", ast.get_docstring(n) or "", re.M) for n in inside):
            yield top.name


def test_only_exported_names_have_sections_in_their_docstrings():
    others = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for name in with_sections(path)
        if not API.get(name_of(path), set()) & {name, "*"}
    ]
    assert others == []


@pytest.mark.parametrize("name", ["found", "given"])
def test_variables_name_the_thing(name):
    vague = [
        f"{name_of(path)}:{line}"
        for path in MODULES
        for line, n in assigned_names(path)
        if n == name
    ]
    assert vague == []


# Functions that say by themselves whether something still fits what is wanted: all others ask
# these. The list may only get shorter.
ANSWERS = {"results/recipe.py: differences", "batch/finished.py: fits"}
# What such functions are called.
QUESTION = re.compile(
    r"_?(fits|differs|differences|is_stale|stale_reasons|staleness|continued|reusable"
    r"|same_(embeddings|settings|space|image|pixels)|has_(its_image|pixels_of)|check_(space|alike))"
)
# Where there are no results, such a name asks something else: whether a method fits a model, say.
BELOW_RESULTS = ("base/", "engine/", "images/", "language/", "regions/", "diffusion/")


def answers(path):
    """Yield the functions of a module that answer such a question and ask no other one."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef) and QUESTION.fullmatch(node.name):
            calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
            names = [getattr(call, "attr", getattr(call, "id", "")) for call in calls]
            if not any(QUESTION.fullmatch(name) for name in names):
                yield node.name


def test_two_functions_say_whether_results_still_fit():
    modules = [path for path in MODULES if not name_of(path).startswith(BELOW_RESULTS)]
    assert {f"{name_of(path)}: {name}" for path in modules for name in answers(path)} == ANSWERS


def test_these_checks_see_what_they_look_for(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('def f(given):\n    """Give it."""\n    found = given\n')
    assert list(docstrings(module)) == [(1, "Give")]
    assert {name for _, name in assigned_names(module)} == {"given", "found"}
    compared = tmp_path / "test_module.py"
    compared.write_text("assert_allclose(a, b, atol=1)\nnp.allclose(a, b)\nassert_allclose(a, b)\n")
    assert list(comparisons_without_tolerance(compared)) == [2, 3]
    module = tmp_path / "questions.py"
    asks = "def continued(self):\n    return self.recipe.differences(1)\n"
    module.write_text(f"def same_embeddings(one, two):\n    return one == two\n{asks}")
    assert list(answers(module)) == ["same_embeddings"]


def comparisons_without_tolerance(path):
    """Yield the lines that compare floats and leave the tolerance to the library.

    The default of assert_allclose, 1e-7, is less than one step of float32 (up to 1.2e-7): another
    order of a sum, which depends on the processor, is red. Copies are equal: assert_array_equal.
    """
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            named = {keyword.arg for keyword in node.keywords}
            if called in {"assert_allclose", "allclose"} and not named & {"rtol", "atol"}:
                yield node.lineno


def test_comparisons_of_floats_name_their_tolerance():
    silent = [
        f"{path.relative_to(TESTS).as_posix()}:{line}"
        for path in TEST_MODULES
        for line in comparisons_without_tolerance(path)
    ]
    assert silent == []


PACKAGE = house_counts.Package()


@pytest.mark.parametrize("counter", house_counts.COUNTERS, ids=lambda counter: counter.__name__)
def test_a_count_of_concepts_only_falls(counter):
    count, number = counter(PACKAGE), house_counts.numbers()[counter.__name__]
    assert count <= number, f"{counter.__doc__} {count} now, at most {number} before."
    assert count == number, f"{count} is fewer than {number}: python tests/house_counts.py --write"


def test_every_number_has_a_counter():
    names = {counter.__name__ for counter in house_counts.COUNTERS}
    assert names == set(house_counts.numbers())


MODULE_OF_CONCEPTS = """
class Progress:
    done: int
    total: int

class Model(EventedModel):
    image: Any

class RunModel(Model):
    regions: Any
    row: int

Ask = Literal["open", "close"]
_TOPICS = "input model"
_DECIDE = "UPDATE regions"

def do(action, value: Any):
    {"run": 1, "stop": 2, Action.REVIEW: 3}[action]()

def kind_of(one):
    own = [region for region in one if region]  # what is there
    return "region" + "s" * (len(own) > 1) if own else ""

def masks(planes):
    if planes:  # none of no plane
        return [[region.mask for region in plane] for plane in planes]
"""


def test_the_counters_see_what_they_look_for(tmp_path):
    for name in ("_napari/store.py", "base/store.py"):
        module = tmp_path / name
        module.parent.mkdir()
        module.write_text(MODULE_OF_CONCEPTS)
    package = house_counts.Package(tmp_path)
    counts = {counter.__name__: counter(package) for counter in house_counts.COUNTERS}
    lines = 2 * MODULE_OF_CONCEPTS.count("\n")
    assert counts == {
        "decision_copies": 1,  # by its name
        "own_formats": 0,
        "progress_records": 2,
        "any_annotations": 3,  # of the panel
        "any_fields_of_the_state": 4,
        "string_actions": 2 * (2 + 2) + 2,
        "shared_module_names": 1,
        "vague_names": 2,
        "texts_by_arithmetic": 2,
        "comprehensions_per_1000_lines": -(-6000 // lines),
        "conditional_expressions_per_1000_lines": -(-2000 // lines),
        "several_comprehensions_in_a_statement": 2,
        "shared_class_names": 3,
        "lines_for_each_comment": 4 * -(-lines // 16),
    }


def test_numbers_are_lowered_and_never_raised():
    text = "vague_names = 5  # goal: 0\nstring_actions = 3\n"
    counts = {"vague_names": 4, "string_actions": 9}
    lowered = house_counts.lowered(text, counts)
    assert lowered == "vague_names = 4  # goal: 0\nstring_actions = 3\n"


# Where nothing public does the same: (package, name).
PRIVATE_NAMES = {
    ("torch", "_modules"),  # a view of a module in evaluation mode that shares its tensors
    ("torch", "_version"),  # whether weights have changed
    ("torch", "_initializing"),  # whether another thread is still importing it
    ("torch", "_linear_pointwise"),  # oneDNN's product with a prepared weight
    ("torch", "_reorder_linear_weight"),  # prepares it
    ("torch", "_scaled_dot_product_flash_attention_for_cpu"),  # what attention calls in the end
    ("segment-anything", "_process_batch"),  # one batch of points, to follow and stop the work
}
OF_PYTHON = {
    "_initializing",  # whether another thread is importing a module
    "_exit",  # ends a process without unloading libraries, which a broken one survives
    "_Unpickler",  # the one whose steps can be limited
    *("_core", "_reconstruct"),  # names in pickles of NumPy
}


def foreign_private_names(path):
    """Yield private attributes and imports that no class or function of the package defines."""
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and re.match("_[a-zA-Z]", node.attr):
            yield node.attr
        elif isinstance(node, ast.Constant) and re.fullmatch("_[a-z]+", str(node.value)):
            yield node.value
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))


def test_private_names_of_libraries_are_listed_and_their_versions_bounded():
    defined = set()
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    used = {name for path in MODULES for name in foreign_private_names(path)} - defined
    assert used <= {name for _, name in PRIVATE_NAMES} | OF_PYTHON
    required = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "dependencies"
    ]
    for package in {"timm", "open_clip_torch", *(package for package, _ in PRIVATE_NAMES)}:
        assert any(re.fullmatch(rf"{package}>=[\d.]+,<\d+", text) for text in required), package


def test_the_library_leaves_the_table_of_modules_alone():
    writes = re.compile(r"sys\.modules(\[[^]]*\] = |\.(update|pop|setdefault)\()|del sys\.modules")
    assert [name_of(p) for p in MODULES if writes.search(p.read_text(encoding="utf-8"))] == []


# Modules that read JSON which comes with the package, or which a process of its own wrote.
OWN_JSON = {
    "images/sample_scenes.py",
    "results/calibrations.py",
    "doctor/checks.py",
}


def test_json_of_others_is_parsed_in_one_place():
    """`base.reading.parse_json` limits its depth and words its errors."""
    direct = [
        name_of(path)
        for path in MODULES
        if re.search(r"json\.loads?\((?!json\.dumps)", path.read_text(encoding="utf-8"))
        and name_of(path) not in OWN_JSON
    ]
    assert direct == ["base/reading.py"]


HAS_A_VERSION = re.compile(
    r'^_?(VERSION|FORMAT): Final = b?"?\d|ConfigFile\(f?"|CREATE TABLE', re.MULTILINE
)


def test_the_reference_lists_the_formats_that_are_our_own():
    """Each with the module that writes it, and the constant of its version if it has one."""
    with house_counts.OWN_FORMATS.open(encoding="utf-8", newline="") as lines:
        formats = [*csv.DictReader(lines)]
    for form in formats:
        text = (SOURCE / form["module"]).read_text(encoding="utf-8")
        if form["constant"]:
            (value,) = re.findall(rf"^{form['constant']}: Final = (.+)$", text, flags=re.M)
            assert re.findall(r"\d+", value)[-1] == form["version"], form["file"]
    with_a_version = {name_of(p) for p in MODULES if HAS_A_VERSION.search(p.read_text("utf-8"))}
    assert with_a_version <= {form["module"] for form in formats}


def test_the_package_does_without_what_is_not_installed():
    repository = re.compile(r"\b(research|benchmarks)\.[a-z]\w+\.")
    naming = [name_of(p) for p in MODULES if repository.search(p.read_text("utf-8"))]
    assert naming == ["cli/app.py"]


def imported(path, package):
    """Return the names that a module imports, as "napari_maskinversion.base.errors.InputError"."""
    names = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


def package_of(path):
    return ".".join(path.parent.relative_to(SOURCE.parent).parts)


def test_no_module_is_installed_for_benchmarks_and_research_alone():
    installed = {name for path in MODULES for name in imported(path, package_of(path))}
    of_repository = {
        name
        for path in [*RESEARCH, *(ROOT / "benchmarks").rglob("*.py")]
        for name in imported(path, "")
    }
    modules = {f"{package_of(path)}.{path.stem}" for path in MODULES}
    assert modules & of_repository - installed == set()


def test_comments_and_docs_name_no_machine():
    """Absolute paths of a developer's machine do not belong in the project."""
    marker = re.compile(r"(?<![\w.~])/(?:work|tmp/wt|root)/")
    offending = []
    for path in [
        *MODULES,
        *RESEARCH,
        *COMMANDS_OF_BENCHMARKS,
        *ROOT.glob("docs/**/*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]:
        with tokenize.open(path) as stream:
            offending += [
                f"{path.name}:{n}" for n, line in enumerate(stream, 1) if marker.search(line)
            ]
    assert offending == []


def test_kept_figures_name_commands_that_work_on_any_machine():
    folder_of_a_machine = re.compile(r'"command": "[^\n]*(?:^|[\s"=\'])(?:/|[A-Za-z]:\\)\w')
    for path in sorted((ROOT / "benchmarks" / "results").rglob("*.json")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            assert not folder_of_a_machine.search(line), f"{path.name}:{number}: {line.strip()}"
