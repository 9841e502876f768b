"""Commands that mend an installation, as any shell takes them.

sh, cmd.exe and PowerShell agree on double quotes around an argument, and on little else: a program
in quotes is a text for PowerShell, single quotes stay for cmd.exe, and none of the signs between
two commands means the same to all. So a remedy has one command a line.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

US: Final = "napari-maskinversion"
_PLAIN: Final = re.compile(r"[\w./:\\+~=-]+", re.ASCII)


def install(*what: str) -> str:
    """Return the command that installs packages or takes options of ``pip install``."""
    return _with_pip("install", *what)


def uninstall(*packages: str) -> str:
    """Return the command that removes packages."""
    return _with_pip("uninstall", *packages)


def install_torch(backend: str = "auto", *options: str) -> str:
    """Return the commands that install the build of torch for this machine."""
    what = (*options, "torch", "torchvision", "--torch-backend", backend)
    if _has("pip") and not shutil.which("uv"):
        first = [] if _has("uv") else [install("uv")]
        return "\n".join([*first, f"{_python()} -m {_uv('install', *what)}"])
    return _uv("install", *what)


def extra(name: str) -> str:
    """Return the command that installs an extra of this package."""
    return install(f"{US}[{name}]")


def _with_pip(command: str, *arguments: str) -> str:
    if not _has("pip"):  # as in environments that uv made
        return _uv(command, *arguments)
    return " ".join([_python(), "-m pip", command, *map(_quoted, arguments)])


def _uv(command: str, *arguments: str) -> str:
    # Named, since uv refuses a Python that is in no virtual environment unless it is named.
    return " ".join(
        ["uv pip", command, "--python", _quoted(sys.executable), *map(_quoted, arguments)]
    )


def _python() -> str:
    """Return what starts this Python: its name where that does, else its path."""
    on_path = shutil.which("python")
    same = on_path is not None and _folded(on_path) == _folded(sys.executable)
    return "python" if same else _quoted(sys.executable)


def _folded(path: str) -> str:
    # Links are not followed: the Pythons of all virtual environments lead to one file.
    return os.path.normcase(Path(path).absolute())


def _quoted(argument: str) -> str:
    return argument if _PLAIN.fullmatch(argument) else f'"{argument}"'


def _has(module: str) -> bool:
    return find_spec(module) is not None
