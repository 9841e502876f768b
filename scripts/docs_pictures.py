"""Every picture of the window in the documentation, in the light and the dark theme.

    xvfb-run -a -s "-screen 0 1600x1000x24" python scripts/docs_pictures.py --out docs/images

(without xvfb-run where there is a display). Drives the real window with the bundled model: sample
scenes, and an aerial tile of the real images (NAPARI_MASKINVERSION_DATA). ``--only``
takes some of the scenes; all of them, in docs/images, also write the record of what the panel
was like (`panel_record.py`), which a test compares with the panel. Exits with 1 if a picture shows
a wrong word that the table does not flag; the pictures are written all the same, so that you see
it. The user's files are neither read nor written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import panel_record
import skimage
import tifffile

from napari_maskinversion.app.session import Action

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("NAPARI_MASKINVERSION_DATA", ""))
WINDOW, PANEL, TABS = (1280, 800), 400, 340
LEAST_LAND = 1500  # px
TILE, LAND = "tile5_008", ("", "building", "unpaved land", "road", "vegetation", "water")
WORDS = ("apple", "elephant", "sunflower", "balloon", "snail", "crown", "rocket", "house", "frog")
CAPTIONS = ("a bunch of purple grapes", "an airplane in the sky", "a house", "a green frog")
FLAGLESS = ("ok", "accepted")


class Window:
    """napari with the panel, and a camera."""

    def __init__(self, out: Path) -> None:
        import napari

        from napari_maskinversion._napari.panel.widget import MaskInversionWidget

        self.out, self.problems, self.truth = out, [], {}
        self.viewer = napari.Viewer(show=True)
        self.viewer.window.resize(*WINDOW)
        self.panel = MaskInversionWidget(self.viewer)
        self.viewer.window.add_dock_widget(self.panel, name="MaskInversion")
        self.widen(PANEL)

    def close(self) -> None:
        self.panel.shut_down()
        self.viewer.close()

    def wait(self, done: Callable[[], bool], seconds: float = 900.0) -> None:
        from qtpy.QtWidgets import QApplication

        end = time.monotonic() + seconds
        while not done():
            QApplication.processEvents()
            time.sleep(0.005)
            if time.monotonic() > end:
                status = self.panel.foot.status.text()
                raise SystemExit(f"The panel did not come so far in time. It says: {status}")

    def rest(self, seconds: float = 0.4) -> None:
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > end)

    def widen(self, width: int) -> None:
        from qtpy.QtCore import Qt

        dock = self.panel.parentWidget()
        self.panel.window().resizeDocks([dock], [width], Qt.Orientation.Horizontal)
        self.rest()

    def open_sample(self, name: str) -> None:
        from napari_maskinversion.images.sample_scenes import load_scene

        self.truth = load_scene(name).truth
        self.viewer.open_sample("napari-maskinversion", name)
        self.rest(0.8)
        self.viewer.reset_view()

    def open(self, image: Path) -> None:
        self.viewer.open(str(image))
        self.rest()

    def run(self) -> None:
        panel = self.panel
        self.wait(lambda: panel.foot.button.text().startswith("Suggest"))
        panel.start()
        self.wait(lambda: not panel.runner.busy and panel.session.run.results is not None)
        self.rest(0.6)

    def pick(self, row: int) -> None:
        self.panel.session.select(row)
        self.rest()

    def rows(self) -> dict[int, tuple[str, str]]:
        """Word and status of each region as the table shows them."""
        model = self.panel.results.model
        names = [column.name for column in model.columns]
        rows = {}
        for row in range(model.rowCount()):
            cell = {n: str(model.data(model.index(row, i)) or "") for i, n in enumerate(names)}
            rows[int(cell["region"])] = cell["suggestion"].removesuffix(" *"), cell["status"]
        return rows

    def check(self, picture: str) -> None:
        for region, (word, status) in self.rows().items():
            right = self.truth[region]
            if word != right and status in FLAGLESS:
                says = f"the table says {word!r}, {status}"
                self.problems.append(f"{picture}: region {region} is a {right}, and {says}")

    def shoot(self, name: str, *parts: Any) -> None:
        """Write NAME-light.png and NAME-dark.png: the window, or widgets side by side."""
        self.check(name)
        self.viewer.reset_view()
        for theme in ("light", "dark"):
            self.viewer.theme = theme
            self.rest(0.6)
            path = self.out / f"{name}-{theme}.png"
            picture = beside([part.grab() for part in parts]) if parts else self._whole().grab()
            picture.save(str(path))
            print(f"{path.name}: {picture.width()} x {picture.height()} px", flush=True)

    def _whole(self) -> Any:
        return self.viewer.window._qt_window

    def shoot_tabs(self, name: str, *tabs: str) -> None:
        """Write the panel with each of these tabs in view, side by side."""
        self.check(name)
        self.widen(TABS)
        for theme in ("light", "dark"):
            self.viewer.theme = theme
            pictures = []
            for tab in tabs:
                self.panel.reveal(tab)
                self.rest(0.6)
                pictures.append(self.panel.grab())
            beside(pictures).save(str(self.out / f"{name}-{theme}.png"))
            print(f"{name}-{theme}.png", flush=True)
        self.widen(PANEL)

    def review(self) -> None:
        self.panel.reveal("review")
        self.panel.review.part.switch.click()
        self.wait(lambda: self.panel.review.state is not None)

    def decide(self, at_most: int) -> None:
        """Accept the right word of as many regions."""
        session, review = self.panel.session, self.panel.review
        for _ in range(min(at_most, session.undecided)):
            left = session.undecided
            word = self.truth[session.run.results.regions[session.review.row].id]
            choices = {choice.label: choice.key for choice in review.state.choices}
            review.act(f"pick {choices[word]}")
            self.wait(lambda left=left: session.undecided < left)
        self.rest()

    def end_review(self) -> None:
        if self.panel.review.state is not None:
            self.panel.review.part.switch.click()
            self.rest()


def beside(pictures: list[Any]) -> Any:
    """Return pictures side by side."""
    from qtpy.QtCore import Qt
    from qtpy.QtGui import QPainter, QPixmap

    page = QPixmap(sum(one.width() for one in pictures), max(one.height() for one in pictures))
    page.fill(Qt.GlobalColor.transparent)
    painter, left = QPainter(page), 0
    for one in pictures:
        painter.drawPixmap(left, 0, one)
        left += one.width()
    painter.end()
    return page


def drawings(window: Window, folder: Path) -> None:
    """The demo: results, review, and what the tab Explore offers."""
    panel = window.panel
    window.open_sample("everyday-1")
    window.run()
    window.pick(0)
    panel.reveal("label")
    window.shoot("window")
    window.viewer.theme = "dark"
    window.rest(0.6)
    window._whole().grab().save(str(window.out / "screenshot.png"))
    why(window)
    compare(window)
    find(window)
    captions(window, folder)
    close_sections(panel)
    window.review()
    window.decide(1)
    window.shoot_tabs("review", "review")
    window.end_review()


def close_sections(panel: Any) -> None:
    for section in (
        panel.why.section,
        panel.compare.section,
        panel.finder.section,
        panel.captions.section,
        panel.imagine.section,
    ):
        section.toggle.setChecked(False)


def why(window: Window) -> None:
    panel = window.panel
    panel.reveal("explore")
    panel.why.section.open()
    window.rest()
    mode = panel.why.mode
    mode.setCurrentIndex(1)
    mode.activated.emit(1)
    window.wait(lambda: not panel.why.job.busy)
    window.rest(0.6)
    window.shoot("why")
    mode.setCurrentIndex(0)
    mode.activated.emit(0)


def compare(window: Window) -> None:
    section = window.panel.compare
    section.section.open()
    window.rest()
    section.compare.click()
    window.wait(lambda: not section.job.busy)
    window.shoot_tabs("compare", "explore")
    right = window.truth[section.region.id]
    for side in section.sides:
        if right not in side.labels.text().splitlines()[0]:
            window.problems.append(f"compare: one answer for a {right} is {side.labels.text()!r}")


def find(window: Window) -> None:
    panel = window.panel
    panel.finder.section.open()
    panel.finder.words.setText("a green frog")
    panel.finder.run()
    window.wait(lambda: not panel.finder.job.busy)
    window.rest()
    panel.gallery.parentWidget().hide()  # The picture is of the panel
    window.shoot_tabs("find", "explore")
    best = window.truth[panel.session.run.results.regions[panel.session.review.row].id]
    if best != "frog":
        window.problems.append(f"find: 'a green frog' is a {best}")


def captions(window: Window, folder: Path) -> None:
    panel = window.panel
    file = folder / "legends.txt"
    file.write_text("\n".join(CAPTIONS), "utf-8")
    panel.captions.section.open()
    panel.captions.build_from(file)
    window.wait(lambda: not panel.captions.job.busy)
    panel.captions.run()
    window.wait(lambda: not panel.captions.job.busy)
    panel.captions.generated.run()
    window.wait(lambda: not panel.captions.generated.job.busy)
    window.rest()
    window.shoot_tabs("captions", "explore", "label")
    for region in panel.session.run.results.regions:
        best, written = region.captions.captions[0], region.generated_caption
        if window.truth[region.id] not in best:
            window.problems.append(f"captions: region {region.id} is said to be {best!r}")
        if region.uncertainty.sure and region.suggestion not in written:
            window.problems.append(f"captions: region {region.id} is written to be {written!r}")
    panel.captions.banks.setCurrentIndex(0)
    panel.captions.banks.activated.emit(0)


def live(window: Window, _: Path) -> None:
    """A region is painted while live mode is on."""
    panel = window.panel
    window.open_sample("everyday-2")
    layer = window.viewer.layers[-1]
    drawn = np.asarray(layer.data) == 5
    layer.data_setitem(np.nonzero(drawn), 0)
    panel.reveal("label")
    panel.live.switch.click()
    window.wait(lambda: panel.results.model.rowCount() == 4)
    layer.data_setitem(np.nonzero(drawn), 5)
    window.wait(lambda: panel.results.model.rowCount() == 5)
    window.pick(4)
    window.viewer.layers.selection.active = layer
    layer.mode = "paint"
    window.rest(1)
    window.shoot("live")
    panel.live.switch.click()
    window.rest()


def settings(window: Window, _: Path) -> None:
    """The pages of the settings, and the window for Segment Anything."""
    panel = window.panel
    dialog = panel.controller.settings
    pages = {"settings-windows": "Regions and windows", "settings-limits": "Words and limits"}
    for name, page in pages.items():
        dialog.bring(page)
        window.rest()
        window.shoot(name, dialog)
    dialog.hide()
    panel.segment.dialog.bring()
    window.rest()
    window.shoot("segment", panel.segment.dialog)
    panel.segment.dialog.hide()


def photographs(window: Window, _: Path) -> None:
    """A photograph, which the demo model does not know; nothing is run."""
    panel = window.panel
    window.truth = {}
    window.viewer.open_sample("napari-maskinversion", "coffee")
    window.rest()
    panel.vocabulary.text.setPlainText("cup of coffee\nspoon\nwooden table")
    panel.do(Action.DRAW)
    (layer,) = (one for one in window.viewer.layers if one.name.endswith("regions"))
    layer.data_setitem(skimage.draw.ellipse(120, 290, 105, 125), 1)  # the cup
    layer.data_setitem(skimage.draw.ellipse(287, 368, 42, 42), 2)  # the spoon
    panel.reveal("label")
    window.wait(lambda: panel.session.run.image_unknown)
    window.rest(1)
    window.shoot("photograph")
    before = panel.session.run.settings.model
    panel.model.choose("ViT-B-16/openai")
    panel.controller.settings.bring("Model")
    window.rest()
    window.shoot("settings-model", panel.controller.settings)
    panel.controller.settings.hide()
    panel.model.choose(before)


def cells(window: Window, _: Path) -> None:
    """The real blood smear that comes with the package, before, in and after its review."""
    window.open_sample("bccd-smear")
    window.panel.reveal("label")
    window.run()
    window.shoot("cells-suggestions")
    window.review()
    window.decide(6)
    window.shoot("cells-review")
    window.decide(len(window.truth))
    window.panel.reveal("label")
    window.rest()
    window.shoot("cells")
    window.end_review()


def aerial(window: Window, folder: Path) -> None:
    """A tile of the Dubai set, its regions decided and shown on the canvas."""
    panel, part = window.panel, (slice(0, 512), slice(0, 512))
    picture = skimage.io.imread(DATA / f"dubai-aerial/images/{TILE}.jpg")[part]
    classes = skimage.io.imread(DATA / f"dubai-aerial/labels/{TILE}.png")[part]
    pieces = skimage.measure.label(classes, background=0, connectivity=1)
    regions, window.truth = np.zeros(pieces.shape, np.int32), {}
    for piece in skimage.measure.regionprops(pieces):
        if piece.area >= LEAST_LAND:
            number = len(window.truth) + 1
            regions[pieces == piece.label] = number
            window.truth[number] = LAND[classes[pieces == piece.label][0]]
    tifffile.imwrite(folder / "tile.tif", picture, photometric="rgb")
    window.open(folder / "tile.tif")
    window.viewer.add_labels(regions, name="parcels", opacity=0.35)
    panel.vocabulary.text.setPlainText("\n".join(LAND[1:]))
    panel.reveal("label")
    window.run()
    window.review()
    window.panel.review.part.form.set_values({"words_on_canvas": True})
    window.decide(len(window.truth))
    panel.reveal("label")
    regions = panel.session.run.results.regions
    right = [row for row, one in enumerate(regions) if one.suggestion == window.truth[one.id]]
    window.pick(right[0] if right else 0)
    window.rest(1)
    window.shoot("aerial")
    window.panel.review.part.form.set_values({"words_on_canvas": False})
    window.end_review()


def reopened(window: Window, folder: Path) -> None:
    """Results of an earlier run, opened again on their image and reviewed."""
    from qtpy.QtWidgets import QFileDialog

    from napari_maskinversion.images.sample_scenes import load_scene
    from napari_maskinversion.results.export.catalogue import FORMATS

    panel, saved, scene = window.panel, folder / "results.npz", load_scene("everyday-3")
    image = folder / "everyday-3.png"
    skimage.io.imsave(image, scene.image)
    window.truth = scene.truth
    window.open(image)
    window.viewer.add_labels(scene.regions.astype(np.int32), name="masks", opacity=0.35)
    panel.vocabulary.text.setPlainText("\n".join(WORDS))
    window.run()
    with mock.patch.object(QFileDialog, "getSaveFileName", return_value=(str(saved), "")):
        panel.exports.ask(FORMATS["npz"])
    window.wait(saved.is_file)
    window.viewer.layers.remove("masks")
    window.rest()
    panel.exports.open_file(saved)
    window.wait(lambda: panel.session.run.regions is not None)
    window.wait(lambda: panel.results.model.rowCount() == len(scene.truth))
    window.rest(1)
    window.review()
    window.decide(1)
    panel.reveal("label")
    window.rest()
    window.shoot("reopened")
    window.end_review()


def images(window: Window, folder: Path) -> None:
    """A folder of images half done: mirror images of the real blood smear."""
    from napari_maskinversion.images.sample_scenes import load_scene

    panel, scene, place = window.panel, load_scene("bccd-smear"), folder / "smears"
    for number, flip in enumerate((np.s_[:, :], np.s_[:, ::-1], np.s_[::-1], np.s_[::-1, ::-1]), 1):
        for kind, pixels in (("images", scene.image), ("masks", scene.regions.astype(np.uint8))):
            (place / kind).mkdir(parents=True, exist_ok=True)
            file = place / kind / f"smear-{number}.png"
            skimage.io.imsave(file, np.ascontiguousarray(pixels[flip]), check_contrast=False)
    window.truth = scene.truth
    panel.vocabulary.text.setPlainText("red blood cell\nwhite blood cell\nplatelet")
    panel.session.project.open_images.emit([place])
    window.wait(lambda: panel.images.shown is not None)
    panel.images.part.suggest.click()
    window.rest()
    window.wait(lambda: panel.session.status.many is None and panel.session.run.results is not None)
    window.review()
    window.decide(len(window.truth))
    panel.do(Action.NEXT_IMAGE)
    window.wait(lambda: panel.session.project.state.current == "smear-2.png")
    window.wait(lambda: panel.session.reviewed is not None)
    window.decide(6)
    panel.reveal("images")
    window.rest(1)
    window.shoot("images")
    window.end_review()


SCENES: Mapping[str, Callable[[Window, Path], None]] = {
    scene.__name__: scene
    for scene in (drawings, live, settings, photographs, cells, aerial, reopened, images)
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--only", nargs="+", choices=list(SCENES), default=list(SCENES))
    options = parser.parse_args()
    needed = {"aerial": DATA / "dubai-aerial"}
    absent = [
        str(path) for name, path in needed.items() if name in options.only and not path.is_dir()
    ]
    if absent:
        raise SystemExit(f"Set NAPARI_MASKINVERSION_DATA to the real images; no {absent[0]}.")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        for name in ("CACHE", "CONFIG"):
            os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(own) / name.lower())
        problems = []
        whole = options.only == list(SCENES) and options.out.resolve() == panel_record.FILE.parent
        for name in options.only:
            # A viewer of its own: software OpenGL crashes when layers are replaced in one.
            window = Window(options.out)
            if name == options.only[0]:
                names = panel_record.titles(window.panel)
            SCENES[name](window, Path(own))
            problems += window.problems
            window.close()
    if whole:
        panel_record.write(names)
    for problem in problems:
        print(problem, file=sys.stderr)
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
