"""Write docs/reference/licences.md: what the package depends on, and under which licences.

Usage: .venv/bin/python scripts/licences.py
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
# Of packages that say it in a file only, and of those that this environment may lack.
KNOWN = {
    "cleanlab": "Apache-2.0",
    "matplotlib": "PSF-based",
    "PyQt6": "GPL-3.0-only",
    "PySide6": "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only",
    "resvg-py": "MIT",
    "segment-anything": "Apache-2.0",
    "spatialdata": "BSD-3-Clause",
    "transformers": "Apache-2.0",
}
HEAD = """# Licences

napari-maskinversion is under the BSD 3-Clause licence ([LICENSE](../../LICENSE)). It needs the
packages below; pip installs them, and none of their code is included.

Images, drawings and the model in this package: see
[ATTRIBUTION.md](../../sample_data/ATTRIBUTION.md). Downloaded models have their own licences:
`napari-maskinversion models list` shows them.

PyQt6 is under the GPL. If this does not fit your licence, install the extra `pyside6` instead.

| Package | Licence | Installed with |
|---|---|---|
"""


def declared():
    """Return the names of required packages, each with the extras that install it ("" always)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    names = {}
    for extra, requirements in groups.items():
        for text in requirements:
            name, inner = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", text).groups()
            # napari's own extras stand for a Qt.
            qt = {"pyqt6": "PyQt6", "pyside6": "PySide6"}.get(inner)
            extras = names.setdefault(qt or name, [])
            extras += [extra] if extra not in extras else []
    return names


def licence(name):
    """Return the licence that a package declares."""
    if name in KNOWN:
        return KNOWN[name]
    try:
        about = metadata(name)
    except PackageNotFoundError:
        raise SystemExit(
            f"{name} is not installed; install all extras, or name it in KNOWN."
        ) from None
    classifiers = [c.split(" :: ")[-1] for c in about.get_all("Classifier", []) if "License" in c]
    short = about.get("License") or ""
    text = about.get("License-Expression") or (short if 0 < len(short) < 40 else classifiers[0])
    return text.removesuffix(" License").removesuffix(" Software")


def main():
    """Write the page."""
    rows = []
    for name, extras in sorted(declared().items(), key=lambda item: item[0].lower()):
        where = "always" if "" in extras else ", ".join(f"`{extra}`" for extra in extras)
        rows.append(f"| {name} | {licence(name)} | {where} |\n")
    PAGE.write_text(HEAD + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
