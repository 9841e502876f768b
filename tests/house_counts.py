"""Count the concepts that a reader of ``src`` has to hold in the head.

``python tests/house_counts.py`` shows the counts beside the numbers of ``tests/house.toml``. With
``--write`` the numbers of what has become fewer are lowered; none is ever raised.
"""

import ast
import csv
import functools
import re
import sys
import tokenize
import tomllib
from collections import Counter
from math import ceil
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "napari_maskinversion"
NUMBERS = Path(__file__).with_name("house.toml")
OWN_FORMATS = Path(__file__).parents[1] / "docs" / "reference" / "own-formats.csv"

# What says nothing about the thing that it names: pronouns, adverbs, participles alone.
VAGUE_NAMES = {
    *("one", "own", "at", "known", "others", "now", "made", "told", "found", "given", "here"),
    *("then", "rest", "what", "begun", "taught", "asked", "wrong", "strange", "mine"),
}
# What copies decisions from one store to another, as MODULE.NAME. Add what is written anew.
DECISION_COPIES = {
    "store._DECIDE",
    "review_learning.KnownRegions",
    "review.Review.take",
}
COMPUTED = (ast.Compare, ast.Call, ast.BoolOp, ast.UnaryOp)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Package:
    """The modules of a package as syntax trees."""

    def __init__(self, folder=SOURCE):
        self.folder = folder

    @functools.cached_property
    def modules(self):
        """The trees by path in the package."""
        paths = sorted(self.folder.rglob("*.py"))
        return {path.relative_to(self.folder): ast.parse(path.read_text("utf-8")) for path in paths}

    @functools.cached_property
    def nodes(self):
        """All nodes of all modules."""
        return [node for tree in self.modules.values() for node in ast.walk(tree)]

    def nodes_of(self, *names):
        """Yield the nodes of some packages at the top."""
        for path, tree in self.modules.items():
            if path.parts[0] in names:
                yield from ast.walk(tree)

    @functools.cached_property
    def lines(self):
        """The number of lines."""
        texts = (path.read_text("utf-8") for path in self.folder.rglob("*.py"))
        return sum(text.count("\n") for text in texts)

    @functools.cached_property
    def comments(self):
        """The number of comments, on a line of their own or behind code."""
        count = 0
        for path in self.folder.rglob("*.py"):
            with path.open("rb") as file:
                for token in tokenize.tokenize(file.readline):
                    count += token.type == tokenize.COMMENT
        return count

    @functools.cached_property
    def defined_names(self):
        """MODULE.NAME and MODULE.CLASS.NAME of all functions, classes and constants."""
        names = set()
        for path, tree in self.modules.items():
            for node in tree.body:
                for name in names_of(node):
                    names.add(f"{path.stem}.{name}")
                if isinstance(node, ast.ClassDef):
                    for member in node.body:
                        for name in names_of(member):
                            names.add(f"{path.stem}.{node.name}.{name}")
        return names

    def assigned(self, name):
        """Yield the values that are assigned to a name at the top of modules."""
        for tree in self.modules.values():
            for node in tree.body:
                if name in names_of(node) and isinstance(node, ast.Assign | ast.AnnAssign):
                    yield node.value


def names_of(node):
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def parts_of(statement):
    """Yield the nodes of a statement without those of statements within it."""
    for node in ast.iter_child_nodes(statement):
        if not isinstance(node, ast.stmt):
            yield node
            yield from parts_of(node)


def is_any(annotation):
    """Return whether an annotation is the bare name ``Any``."""
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def bases(class_node):
    """Return the names of the classes that a class inherits from."""
    return {getattr(base, "id", getattr(base, "attr", "")) for base in class_node.bases}


def fields(class_node):
    """Return the annotated fields of a class: name, annotation."""
    return {
        node.target.id: node.annotation
        for node in class_node.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def members(class_node):
    """Return the names of the fields and of the properties of a class."""
    names = set(fields(class_node))
    for node in class_node.body:
        if isinstance(node, ast.FunctionDef):
            decorators = {getattr(decorator, "id", "") for decorator in node.decorator_list}
            if "property" in decorators:
                names.add(node.name)
    return names


# -- the counters -------------------------------------------------------------------------------


def decision_copies(package):
    """Count what copies decisions from one store to another."""
    return len(DECISION_COPIES & package.defined_names)


def progress_records(package):
    """Count classes with ``fraction``, or with ``done`` and ``total``."""
    count = 0
    for node in package.nodes:
        if isinstance(node, ast.ClassDef):
            names = members(node)
            if "fraction" in names or {"done", "total"} <= names:
                count += 1
    return count


def any_annotations(package):
    """Count parameters, variables and fields typed ``Any`` in the panel and the application."""
    count = 0
    for node in package.nodes_of("_napari", "app"):
        if isinstance(node, ast.arg | ast.AnnAssign) and is_any(node.annotation):
            count += 1
    return count


def any_fields_of_the_state(package):
    """Count fields typed ``Any`` of evented models: what parts of the panel share."""
    classes = [node for node in package.nodes if isinstance(node, ast.ClassDef)]
    evented = {"EventedModel"}
    for _ in range(3):  # models of models
        evented |= {node.name for node in classes if bases(node) & evented}
    count = 0
    for node in classes:
        if node.name in evented:
            count += sum(is_any(annotation) for annotation in fields(node).values())
    return count


def string_actions(package):
    """Count what is called by a string: members of `Ask`, keys of `do`, words of `_TOPICS`."""
    count = 0
    for value in package.assigned("Ask"):
        count += sum(isinstance(node, ast.Constant) for node in ast.walk(value))
    for value in package.assigned("_TOPICS"):
        if isinstance(value, ast.Constant):
            count += len(value.value.split())
    for node in package.nodes_of("_napari", "app"):
        if isinstance(node, ast.FunctionDef) and node.name == "do":
            for table in ast.walk(node):
                if isinstance(table, ast.Dict):
                    count += sum(isinstance(key, ast.Constant) for key in table.keys)
    return count


def shared_module_names(package):
    """Count names that several modules have."""
    names = Counter(path.stem for path in package.modules if not path.stem.startswith("__"))
    return sum(count > 1 for count in names.values())


def vague_names(package):
    """Count assignments to names that say nothing."""
    count = 0
    for node in package.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            count += node.id in VAGUE_NAMES
    return count


def texts_by_arithmetic(package):
    """Count texts that are multiplied by something that is computed: ``"s" * (count > 1)``."""
    count = 0
    for node in package.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for text, factor in ((node.left, node.right), (node.right, node.left)):
                is_text = isinstance(text, ast.JoinedStr) or (
                    isinstance(text, ast.Constant) and isinstance(text.value, str)
                )
                count += is_text and isinstance(factor, COMPUTED)
    return count


def comprehensions_per_1000_lines(package):
    """Count comprehensions in 1,000 lines, rounded up."""
    return ceil(
        1000 * sum(isinstance(node, COMPREHENSIONS) for node in package.nodes) / package.lines
    )


def conditional_expressions_per_1000_lines(package):
    """Count ``a if b else c`` in 1,000 lines, rounded up."""
    count = sum(isinstance(node, ast.IfExp) for node in package.nodes)
    return ceil(1000 * count / package.lines)


def several_comprehensions_in_a_statement(package):
    """Count statements with more than one comprehension, side by side or nested."""
    count = 0
    for node in package.nodes:
        if isinstance(node, ast.stmt):
            count += sum(isinstance(part, COMPREHENSIONS) for part in parts_of(node)) > 1
    return count


def shared_class_names(package):
    """Count names of classes that several modules have."""
    names = Counter()
    for tree in package.modules.values():
        names.update({node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)})
    return sum(count > 1 for count in names.values())


def lines_for_each_comment(package):
    """Count lines for each comment, rounded up to fours; docstrings are none."""
    return 4 * ceil(package.lines / package.comments / 4)


def own_formats(package):
    """Count the files that the program writes for itself, listed by the module that does it."""
    with OWN_FORMATS.open(encoding="utf-8", newline="") as lines:
        return sum(Path(form["module"]) in package.modules for form in csv.DictReader(lines))


COUNTERS = (
    decision_copies,
    own_formats,
    progress_records,
    any_annotations,
    any_fields_of_the_state,
    string_actions,
    shared_module_names,
    vague_names,
    texts_by_arithmetic,
    comprehensions_per_1000_lines,
    conditional_expressions_per_1000_lines,
    several_comprehensions_in_a_statement,
    shared_class_names,
    lines_for_each_comment,
)


def numbers():
    """Return the numbers of ``tests/house.toml``."""
    return tomllib.loads(NUMBERS.read_text("utf-8"))


def lowered(text, counts):
    """Return the text of ``house.toml`` with the numbers of what has become fewer."""
    for name, count in counts.items():
        kept = int(re.search(rf"^{name} = (\d+)", text, flags=re.M)[1])
        text = re.sub(rf"^{name} = \d+", f"{name} = {min(count, kept)}", text, flags=re.M)
    return text


def main():
    """Show the counts, and lower the numbers if asked to."""
    package = Package()
    counts = {counter.__name__: counter(package) for counter in COUNTERS}
    for name, count in counts.items():
        print(f"{name:40} {count:6} {numbers()[name]:6}")
    if "--write" in sys.argv:
        NUMBERS.write_text(lowered(NUMBERS.read_text("utf-8"), counts), "utf-8")


if __name__ == "__main__":
    main()
