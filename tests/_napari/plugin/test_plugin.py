"""What napari sees of the plugin: manifest, menus, samples, and both kinds of viewer."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from napari._app_model.constants._menus import is_menu_contributable
from npe2 import PluginManifest
from qtpy.QtCore import Qt

import napari_maskinversion
from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion.app.session import Action
from napari_maskinversion.images.sample_scenes import load_scene, sample_folder, scene_names

PACKAGE = Path(napari_maskinversion.__file__).parent
NAME = "napari-maskinversion"


@pytest.fixture(scope="module")
def manifest():
    return PluginManifest.from_file(PACKAGE / "napari.yaml")


@pytest.fixture
def plugin(npe2pm, manifest):
    """The plugin, and no other, in napari's plugin manager."""
    if manifest.name not in npe2pm:
        npe2pm.register(manifest)
    return npe2pm


def test_the_manifest_is_found_and_every_command_leads_somewhere(manifest):
    discovered = PluginManifest.from_distribution(NAME)
    assert discovered.name == NAME
    assert discovered == manifest or discovered.contributions == manifest.contributions
    manifest.validate_imports()


def test_the_manifest_beside_the_sources_is_the_one_in_the_package(manifest):
    top = PACKAGE.parents[1] / "napari.yaml"
    if not top.exists():
        pytest.skip("not a source tree")
    assert top.read_text("utf-8") == (PACKAGE / "napari.yaml").read_text("utf-8")


def test_every_menu_may_be_contributed_to(manifest):
    menus = manifest.contributions.menus
    assert "napari/layers/classify" in menus
    assert all(is_menu_contributable(menu) for menu in menus)
    assert not is_menu_contributable("napari/layers/context")  # what this test is about


def test_every_scene_is_offered_and_no_sample_has_a_commands_name(manifest):
    keys = [sample.key for sample in manifest.contributions.sample_data]
    assert keys == [*scene_names(), "library", "coffee", "astronaut", "ihc"]
    commands = {command.id for command in manifest.contributions.commands}
    assert not commands & {f"{NAME}.{key}" for key in keys}


@pytest.mark.parametrize("name", scene_names())
def test_scenes_open_as_image_and_labels_with_their_vocabulary(manifest, plugin, name):
    sample = next(s for s in manifest.contributions.sample_data if s.key == name)
    (image, image_options, image_kind), (labels, labels_options, labels_kind) = sample.open(
        _registry=plugin.commands
    )
    scene = load_scene(name)
    assert (image_kind, labels_kind) == ("image", "labels")
    assert image.shape[:2] == labels.shape
    assert set(np.unique(labels)) - {0} == set(scene.truth)
    assert set(scene.truth.values()) <= set(labels_options["metadata"]["vocabulary"])
    assert image_options["name"] == scene.title


def test_photographs_open_without_regions(manifest, plugin):
    for key in ("coffee", "astronaut", "ihc"):
        sample = next(s for s in manifest.contributions.sample_data if s.key == key)
        layers = sample.open(_registry=plugin.commands)
        assert len(layers) == 1
        assert layers[0][0].shape[-1] == 3


def test_samples_lie_in_the_package_or_beside_it():
    assert sample_folder() in (PACKAGE / "sample_data", PACKAGE.parents[1] / "sample_data")


def test_a_sample_opened_in_napari_fills_the_widget_in(make_napari_viewer, plugin):
    viewer = make_napari_viewer()
    dock, holder = viewer.window.add_plugin_dock_widget(NAME)
    viewer.open_sample(NAME, "everyday-2")
    widget = holder.panel()
    assert widget.input.image.layer is viewer.layers["Everyday things 2"]
    assert widget.input.regions.layer is viewer.layers["Everyday things 2: regions"]
    assert widget.input.line.text() == "5 regions on this plane"
    assert "mushroom" in widget.vocabulary.vocabulary().labels
    viewer.window.remove_dock_widget(dock)


def test_napari_s_proxy_of_the_viewer_serves_as_the_viewer_does(
    make_napari_viewer_proxy, scene, slow, run_to_end, messages
):
    viewer = make_napari_viewer_proxy()
    viewer.add_image(scene[0], name="photo")
    viewer.add_labels(scene[1], name="cells")
    widget = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(widget)
    widget.vocabulary.text.setPlainText("cat\ndog")
    slow.free = True
    run_to_end(widget)
    assert widget.results.model.rowCount() == 50
    assert "heatmap: photo" in [layer.name for layer in viewer.layers]
    assert not messages
    widget.shut_down()


TORCH = """
import sys, threading, time
import numpy as np
from qtpy.QtWidgets import QApplication
app = QApplication([])
from napari.components import ViewerModel
from napari_maskinversion._napari.workers import warming
from napari_maskinversion._napari.panel.widget import MaskInversionWidget

assert not {"pandas", "pyarrow"} & set(sys.modules)
threads, done = [], []
warm_up = warming.warm_up
warming.warm_up = lambda: (threads.append(threading.current_thread()), warm_up())
viewer = ViewerModel()
viewer.add_image(np.random.rand(9, 9))
viewer.add_labels(np.eye(9, dtype=int))
widget = MaskInversionWidget(viewer)
widget.vocabulary.text.setPlainText("cat")
widget.run_controller.request()
assert not {"torch", "open_clip", "triton"} & set(sys.modules)
widget.warming.done.connect(lambda: done.append(1))
widget.show()
assert "torch" not in sys.modules
end = time.monotonic() + 240
while not done and time.monotonic() < end:
    app.processEvents()
    time.sleep(0.01)
assert done and threads[0] is not threading.main_thread()
assert "torch" in sys.modules  # what this test looks for can be seen
assert "napari_maskinversion.engine.models.openclip" in sys.modules
widget.hide(); widget.show()
assert len(threads) == 1
widget.shut_down()
app.closeAllWindows()
for _ in range(50):  # nothing is left to delete when Python ends
    app.processEvents()
    time.sleep(0.01)
"""


def test_the_panel_imports_torch_in_the_background_once_it_is_seen_and_never_before():
    done = subprocess.run([sys.executable, "-c", TORCH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_drawings_and_a_real_image_are_one_click_away(make_napari_viewer, plugin, qtbot):
    viewer = make_napari_viewer()
    _dock, holder = viewer.window.add_plugin_dock_widget(NAME)
    foot = holder.panel().foot
    for button, key in (
        (foot.button, "everyday-1"),
        (foot.beside[Action.OPEN_SMEAR], "bccd-smear"),
    ):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        scene = load_scene(key)
        assert [layer.name for layer in viewer.layers] == [scene.title, f"{scene.title}: regions"]
        assert not foot.beside[Action.OPEN_SMEAR].isVisible()
        viewer.layers.clear()
