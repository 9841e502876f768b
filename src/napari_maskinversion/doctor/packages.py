"""Checks of the installed packages: versions against the declared bounds, and known conflicts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distributions,
    requires,
    version,
)
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .declared import Declared, of_metadata, of_tree, source_findings
from .remedies import US, install, install_torch, uninstall
from .report import Finding

# What a report about an error needs to name.
_NAMED: Final = (
    "torch",
    "torchvision",
    "open-clip-torch",
    "timm",
    "numpy",
    "napari",
    "vispy",
    "superqt",
    "magicgui",
    "pydantic",
    "pandas",
    "tifffile",
    "zarr",
)
_OPENCV: Final = ("opencv-python", "opencv-contrib-python")


def installed_version(name: str) -> str:
    """Return the version of a package; "" if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def distribution_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    return {name: number for name in names if (number := installed_version(name))}


def check_versions() -> list[Finding]:
    """Compare the installed versions with the bounds that this package declares."""
    tree, installed = of_tree(), of_metadata()
    wanted = (tree or installed or Declared("", (), {})).needed
    present = distribution_versions(one.name for one in wanted)
    torchvision = requires("torchvision") if "torchvision" in present else []
    pairs = [one for one in map(Requirement, torchvision or []) if one.name == "torch"]
    return [
        versions_finding(wanted, present),
        *source_findings(tree, installed),
        *pair_findings(pairs, present),
    ]


def versions_finding(wanted: Iterable[Requirement], present: Mapping[str, str]) -> Finding:
    """Return what the versions mean."""
    wanted = list(wanted)
    absent = [one.name for one in wanted if one.name not in present]
    outside = [
        f"{one.name} {present[one.name]} (needs {one.specifier})"
        for one in wanted
        if one.name in present and not one.specifier.contains(present[one.name], prereleases=True)
    ]
    facts = {"versions": dict(sorted(present.items()))}
    if absent or outside:
        parts = [f"missing: {', '.join(absent)}"] if absent else []
        parts += [f"outside of the bounds: {', '.join(outside)}"] if outside else []
        remedy = install("--upgrade", US)
        return Finding("packages", "problem", "; ".join(parts), remedy, facts)
    by_name = {str(canonicalize_name(name)): number for name, number in present.items()}
    named = [f"{name} {by_name[name]}" for name in _NAMED if name in by_name]
    summary = f"{len(wanted)} fit their bounds: {', '.join(named)}"
    return Finding("packages", "ok", summary, "", facts)


def pair_findings(pairs: Iterable[Requirement], present: Mapping[str, str]) -> list[Finding]:
    """Return a finding if torchvision was built for another torch."""
    torch = present.get("torch", "")
    for pair in pairs:
        if torch and not pair.specifier.contains(torch.partition("+")[0], prereleases=True):
            summary = f"torchvision {present['torchvision']} was built for torch {pair.specifier}"
            summary += f", and torch is {torch}"
            return [
                Finding("torchvision", "problem", summary, install_torch("auto", "--reinstall"))
            ]
    return []


def check_conflicts() -> list[Finding]:
    """Look for packages and variables that are known to break others."""
    ours = {
        canonicalize_name(one.name)
        for declared in filter(None, (of_tree(), of_metadata()))
        for group in (declared.needed, *declared.extras.values())
        for one in group
    }
    places: dict[str, list[Distribution]] = {}
    for one in distributions():
        name = canonicalize_name(one.metadata["Name"] or "")
        if name in ours:
            places.setdefault(name, []).append(one)
    twice = {
        name: [one.version for one in copies]
        for name, copies in places.items()
        if len({one.version for one in copies}) > 1
    }
    opencv = distribution_versions(_OPENCV)
    return conflict_findings(twice, opencv, sys.platform, os.environ)


def conflict_findings(
    twice: Mapping[str, list[str]],
    opencv: Mapping[str, str],
    system: str,
    variables: Mapping[str, str],
) -> list[Finding]:
    """Return one finding for each conflict, or one that says that there is none."""
    name = "conflicts"
    findings = []
    for package, versions in twice.items():
        summary = f"{package} is installed more than once ({', '.join(versions)})"
        remedy = "set PYTHONNOUSERSITE=1 if one copy is in your home folder, and\n"
        remedy += install("--force-reinstall", package)
        findings.append(Finding(name, "problem", summary, remedy))
    if opencv and system.startswith("linux"):
        summary = f"{' and '.join(opencv)} brings a Qt of its own, which can keep windows shut"
        remedy = "\n".join((uninstall(*opencv), install("opencv-python-headless")))
        findings.append(Finding(name, "note", summary, remedy))
    if re.fullmatch("1|true|yes|on", variables.get("KMP_DUPLICATE_LIB_OK", ""), re.I):
        summary = "KMP_DUPLICATE_LIB_OK hides that two OpenMP libraries are loaded"
        remedy = "unset it; install torch and NumPy both by pip or both by conda"
        findings.append(Finding(name, "note", summary, remedy))
    if variables.get("PYTHONPATH") and _holds_packages(variables["PYTHONPATH"]):
        summary = "PYTHONPATH names a folder of packages, which come before the installed ones"
        findings.append(Finding(name, "note", summary, "unset PYTHONPATH"))
    return findings or [Finding(name, "ok", "none of the known ones")]


def _holds_packages(paths: str) -> bool:
    return any(
        next(Path(path).glob("*.dist-info"), None) is not None
        for path in paths.split(os.pathsep)
        if path
    )
