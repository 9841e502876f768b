"""Check of the extras: which are installed, what the others would bring, which are broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from packaging.requirements import Requirement

from .declared import Declared, of_metadata, of_tree
from .packages import distribution_versions
from .remedies import extra, install
from .report import Finding

# What each brings. The Qts, [all] and [pyside6], are checked with the window.
EXTRAS: Final = {
    "batch": "batches on several machines",
    "bench": "plots of bench",
    "bioio": "ND2 and LIF as images",
    "captioning": "captions by CLIPCap",
    "diffusion": "pictures of what an embedding shows",
    "spatial": "GeoPackage, AnnData and SpatialData",
    "tokenizers": "SigLIP and other models with tokenizers of their own",
}
# What comes with other packages too, and why its bounds matter.
_TRAPS: Final = {"setuptools": "xarray-schema, which spatialdata imports, needs pkg_resources"}


def check_extras() -> list[Finding]:
    """Tell which extras are installed, and what the others are for."""
    declared = of_tree() or of_metadata() or Declared("", (), {})
    wanted = {name: group for name, group in declared.extras.items() if name in EXTRAS}
    names = {one.name for group in wanted.values() for one in group}
    return extras_findings(wanted, distribution_versions(sorted(names)))


def extras_findings(
    wanted: Mapping[str, tuple[Requirement, ...]], present: Mapping[str, str]
) -> list[Finding]:
    """Return what the installed versions mean for the extras."""
    whole = [name for name, group in wanted.items() if all(r.name in present for r in group)]
    absent = sorted(wanted.keys() - set(whole))
    parts = [f"installed: {', '.join(sorted(whole))}"] if whole else []
    parts += [f"not installed: {'; '.join(f'{one} ({EXTRAS[one]})' for one in absent)}"] * bool(
        absent
    )
    remedy = f"for those that you need:\n{extra(','.join(absent))}" if absent else ""
    facts = {
        "installed": sorted(whole),
        "absent": absent,
        "versions": dict(sorted(present.items())),
    }
    findings = [Finding("extras", "ok", "; ".join(parts), remedy, facts)]
    for name in whole:
        outside = [
            one
            for one in wanted[name]
            if not one.specifier.contains(present[one.name], prereleases=True)
        ]
        if outside:
            said = ", ".join(
                f"{one.name} {present[one.name]} (needs {one.specifier}"
                + (f": {_TRAPS[one.name]})" if one.name in _TRAPS else ")")
                for one in outside
            )
            remedy = install(*map(str, outside))
            findings.append(Finding("extras", "note", f"{name} may not work: {said}", remedy))
    return findings
