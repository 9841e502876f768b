"""Imported before anything of Qt's: where there is none, that is said in one sentence."""

from __future__ import annotations

from ...base.errors import InputError

try:
    import qtpy.QtWidgets  # noqa: F401
except ImportError as error:
    raise InputError(
        "The panel and the demo need a Qt, and none is installed here: "
        "pip install 'napari-maskinversion[all]' brings PyQt6, 'napari-maskinversion[pyside6]' "
        "PySide6. The command line works without."
    ) from error
