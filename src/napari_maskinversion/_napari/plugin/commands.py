"""What menus of the manifest name: commands, which open the dock widget at a place, and samples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari.viewer import Viewer

from ...images.sample_scenes import load_scene
from ..layers.placing import REGIONS_OPACITY

if TYPE_CHECKING:
    from .dock import PanelDock


PLUGIN, WIDGET = "napari-maskinversion", "MaskInversion"
# The Plugins menu's name of the dock, so that its entry shows and hides this one.
DOCK = f"{WIDGET} (MaskInversion)"


def classify(viewer: Viewer) -> None:
    """Layers > Classify: label regions, the active layer chosen."""
    open_widget(viewer, "label")


def review(viewer: Viewer) -> None:
    """Layers > Annotate: review suggestions."""
    open_widget(viewer, "review")


def segment(viewer: Viewer) -> None:
    """Layers > Segment: regions from boxes and points."""
    open_widget(viewer, "segment")


def export(viewer: Viewer) -> None:
    """File > IO Utilities: save results."""
    open_widget(viewer, "results")


def regions_from_file(viewer: Viewer) -> None:
    """File > IO Utilities: place the regions of a file on the open image."""
    open_widget(viewer, "label").when_made(lambda panel: panel.from_file.ask())


def open_widget(viewer: Viewer, place: str = "") -> PanelDock:
    """Open the dock widget, or bring it to the front, with the active layer chosen."""
    from qtpy.QtWidgets import QDockWidget

    from ..widgets.sections import around
    from .dock import PanelDock

    active = viewer.layers.selection.active
    widget = _docked(viewer)
    if widget is None:
        widget = PanelDock(viewer)
        viewer.window.add_dock_widget(widget, name=DOCK, area="right")
    dock = around(widget, QDockWidget)
    if dock is not None:
        dock.show()
        dock.raise_()
    if active is not None:
        layer = getattr(active, "__wrapped__", active)
        widget.when_made(lambda panel: panel.preselect(layer))
    if place:
        widget.when_made(lambda panel: panel.reveal(place))
    return widget


def _docked(viewer: Viewer) -> PanelDock | None:
    """Return the dock of this viewer, however it was opened; None without one."""
    from qtpy.QtWidgets import QApplication

    from .dock import PanelDock

    raw = getattr(viewer, "__wrapped__", viewer)
    for widget in QApplication.allWidgets():
        if isinstance(widget, PanelDock) and widget.belongs_to(raw):
            return widget
    return None


LayerTuple = tuple[Any, dict[str, Any], str]


def open_scene(name: str) -> list[LayerTuple]:
    """Return a scene as an image layer and a labels layer that brings its vocabulary."""
    scene = load_scene(name)
    metadata = {"vocabulary": list(scene.vocabulary)}
    return [
        (scene.image, {"name": scene.title, "rgb": True, "metadata": metadata}, "image"),
        (
            scene.regions.astype("int32"),
            {"name": f"{scene.title}: regions", "metadata": metadata, "opacity": REGIONS_OPACITY},
            "labels",
        ),
    ]


def sample_library() -> list[LayerTuple]:
    """Return a scene, and use the library of all scenes in the panel, which makes it at first."""
    from napari import current_viewer

    if (viewer := current_viewer()) is not None:
        open_widget(viewer, "explore").when_made(lambda panel: panel.library.open_sample())
    return everyday_1()


def open_photograph(function: str, title: str) -> list[LayerTuple]:
    """Return a photograph of scikit-image, without regions."""
    import skimage.data

    return [(getattr(skimage.data, function)(), {"name": title, "rgb": True}, "image")]


# The manifest names them.
everyday_1 = partial(open_scene, "everyday-1")
everyday_2 = partial(open_scene, "everyday-2")
everyday_3 = partial(open_scene, "everyday-3")
from_above = partial(open_scene, "from-above")
blood_smear = partial(open_scene, "blood-smear")
bccd_smear = partial(open_scene, "bccd-smear")
coffee = partial(open_photograph, "coffee", "Coffee")
astronaut = partial(open_photograph, "astronaut", "Astronaut")
ihc = partial(open_photograph, "immunohistochemistry", "Immunohistochemistry")
