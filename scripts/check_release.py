"""Refuse a release whose files do not say the same: `python scripts/check_release.py v0.2.0`.

The release workflow runs it on the tag before it builds; docs/contributing/release.md is the list.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTICE = "No version is published yet"  # in README.md and docs/install.md until the first release


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what keeps a tag from being released, one sentence each."""

    def read(name: str) -> str:
        return (root / name).read_text("utf-8")

    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    wrong = []
    if tag != f"v{version}":
        wrong.append(f"The tag is {tag}, and pyproject.toml says {version}.")
    if "dev" in version:
        wrong.append(f"{version} is a development version.")
    places = {"CITATION.cff": r"^version: (.+)$", "packaging/conda/recipe.yaml": r'version: "(.+)"'}
    for name, pattern in places.items():
        if (said := re.search(pattern, read(name), re.M)) is None or said[1] != version:
            wrong.append(f"{name} does not say version {version}.")
    changes = re.split(r"^## ", read("CHANGELOG.md"), flags=re.M)[1:]
    unreleased = next((part for part in changes if part.startswith("[Unreleased]")), "")
    if unreleased.partition("\n")[2].strip():
        wrong.append(f"CHANGELOG.md has changes under [Unreleased]; move them under [{version}].")
    if not any(
        re.match(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", part) for part in changes
    ):
        wrong.append(f"CHANGELOG.md has no heading '## [{version}] - DATE'.")
    wrong += [
        f"{n} says {NOTICE!r}." for n in ("README.md", "docs/install.md") if NOTICE in read(n)
    ]
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    raise SystemExit("\n".join(problems(sys.argv[1])) or 0)
