"""The command line: one file per command."""

import sys
from typing import NoReturn


def main() -> None:
    """Run the command line; the entry point ``napari-maskinversion``."""
    try:
        from .app import main as run
    except Exception as error:  # a package that all commands need is missing or broken
        _without_commands(error)
    run()


def _without_commands(error: Exception) -> NoReturn:
    """Report on the installation if asked to, else say that a package is broken; end the program.

    Needs nothing but Python: neither typer nor rich may be there.
    """
    if "--debug" in sys.argv:
        raise error
    if sys.argv[1:2] == ["doctor"]:
        from ..doctor.checks import examine

        report = examine()
        print(report.json() if "--json" in sys.argv else report.text())
        sys.exit(1)
    error_text = " ".join(f"{type(error).__name__}: {error}".split())
    print(
        f"Error: a package is missing or broken ({error_text}); "
        "'napari-maskinversion doctor' says what to do.",
        file=sys.stderr,
    )
    sys.exit(1)
