"""Commands of the manifest's menus."""

from __future__ import annotations

from typing import Any

from napari.viewer import Viewer

PLUGIN, WIDGET = "napari-maskinversion", "MaskInversion"


def classify(viewer: Viewer) -> None:
    """Layers > Classify: open the dock widget with the active layer chosen."""
    open_widget(viewer)


def open_widget(viewer: Any) -> Any:
    """Open the dock widget, or bring it to the front, with the active layer chosen.

    Returns
    -------
    MaskInversionWidget
    """
    active = viewer.layers.selection.active
    dock, widget = viewer.window.add_plugin_dock_widget(PLUGIN, WIDGET)
    dock.show()
    dock.raise_()
    if active is not None:
        widget.preselect(getattr(active, "__wrapped__", active))
    return widget
