"""What this package declares that it needs: by its installed metadata, or by the tree it runs from.

Where the source is used in place, as after ``pip install -e``, the metadata are those of the day of
the installation. Then pyproject.toml counts, and a note lists the differences.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .remedies import US, install
from .report import Finding

_TREE = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Declared:
    """Requirements of one version."""

    version: str
    needed: tuple[Requirement, ...]  # Without any extra, on this system
    extras: Mapping[str, tuple[Requirement, ...]]  # What each extra adds

    @property
    def everything(self) -> set[str]:
        """All requirements as text, each with its extra, and with names as all tools write them."""
        groups = {"": self.needed, **self.extras}
        return {
            f"{canonicalize_name(one.name)}{one.specifier}" + (f" [{extra}]" if extra else "")
            for extra, group in groups.items()
            for one in group
        }


def of_metadata() -> Declared | None:
    """Return what the installed metadata declare; None if the package is not installed."""
    try:
        about = metadata(US)
    except PackageNotFoundError:
        return None
    texts = about.get_all("Requires-Dist") or []
    wanted = [Requirement(text) for text in texts]
    extras = {
        name: tuple(_bare(one) for one in wanted if _applies(one, name) and not _applies(one))
        for name in about.get_all("Provides-Extra") or []
    }
    needed = tuple(_bare(one) for one in wanted if _applies(one))
    return Declared(about["Version"], needed, extras)


def of_tree(root: Path = _TREE) -> Declared | None:
    """Return what pyproject.toml declares; None if this is no source tree."""
    try:
        project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    about = project.get("project", {})
    if about.get("name") != US:
        return None
    groups = {"": about["dependencies"], **about["optional-dependencies"]}
    wanted = {
        name: tuple(_bare(one) for one in map(Requirement, texts) if _applies(one))
        for name, texts in groups.items()
    }
    return Declared(about["version"], wanted.pop(""), wanted)


def source_findings(
    tree: Declared | None, installed: Declared | None, root: Path = _TREE
) -> list[Finding]:
    """Return a note where the source that runs and the installed metadata differ."""
    if tree is None or (
        installed is not None
        and (tree.version, tree.everything) == (installed.version, installed.everything)
    ):
        return []
    if installed is None:
        summary = "the source tree is not installed, so napari does not know the plugin"
    else:
        summary = f"the source is {tree.version}, the installed metadata are {installed.version}"
        if new := sorted(tree.everything - installed.everything):
            summary += f"; only the source needs {', '.join(new)}"
        if old := sorted(installed.everything - tree.everything):
            summary += f"; only the metadata need {', '.join(old)}"
    return [Finding("source", "note", summary, install("-e", str(root)))]


def _applies(one: Requirement, extra: str = "") -> bool:
    return one.marker is None or one.marker.evaluate({"extra": extra})


def _bare(one: Requirement) -> Requirement:
    """Return a requirement without the condition that it met."""
    bare = Requirement(str(one))
    bare.marker = None
    return bare
