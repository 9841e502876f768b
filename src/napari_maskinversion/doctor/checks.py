"""All checks, in the order in which they are shown; each is isolated from the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Final

from .. import __version__
from .remedies import US, install
from .report import Finding, Report, one_line

# Title, module, function: a module that cannot be imported is a finding too.
CHECKS: Final = (
    ("Python", "machine", "check_python"),
    ("memory", "machine", "check_memory"),
    ("torch", "compute", "check_torch"),
    ("Qt", "window", "check_qt"),
    ("OpenGL", "window", "check_opengl"),
    ("napari", "window", "check_napari"),
    ("models", "machine", "check_models"),
    ("limits", "machine", "check_limits"),
    ("cache", "machine", "check_cache"),
    ("network", "machine", "check_network"),
    ("packages", "packages", "check_versions"),
    ("extras", "extras", "check_extras"),
    ("conflicts", "packages", "check_conflicts"),
)
_AT_ONCE: Final = 4  # processes that import torch, Qt and napari


def examine() -> Report:
    """Run all checks. Takes some seconds, in processes of their own: not for the GUI thread."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(_checked, CHECKS))
    return Report(__version__, tuple(finding for result in results for finding in result))


def _checked(check: tuple[str, str, str]) -> list[Finding]:
    """Run one check; one that breaks off is a finding."""
    title, module, function = check
    try:
        run: Callable[[], list[Finding]] = getattr(
            import_module(f".{module}", __package__), function
        )
        return run()
    except Exception as error:
        summary = f"could not be checked: {one_line(error)}"
        remedy = install("--upgrade", US)
        return [Finding(title, "problem", summary, remedy)]
