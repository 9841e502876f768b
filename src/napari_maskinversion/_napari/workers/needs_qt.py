"""Import this before Qt: if Qt is missing, it says so in one sentence."""

from __future__ import annotations

from ...base.errors import InputError

try:
    import qtpy.QtWidgets  # noqa: F401
except ImportError as error:
    raise InputError(
        "The panel and the demo need Qt, which is not installed: "
        'pip install "napari-maskinversion[all]" brings PyQt6, "napari-maskinversion[pyside6]" '
        "PySide6. The command line works without Qt."
    ) from error
