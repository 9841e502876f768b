"""Packages that are not installed with this one: named, with the command that installs them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from .errors import ConfigError


def check_extra(what: str, extra: str, modules: Iterable[str]) -> None:
    """Refuse work whose packages are not installed.

    Parameters
    ----------
    what : str
        What needs them, for the message.
    extra : str
        Name of the extra that installs them.
    modules : iterable of str
        What is imported.

    Raises
    ------
    ConfigError
        Names what is missing, and the command that installs it.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"{what} needs {', '.join(missing)}; install the extra: "
            f"pip install 'napari-maskinversion[{extra}]'"
        )
