"""Six people use the panel:  ``xvfb-run -a python benchmarks/people.py``

Each drives the real window with mouse and keys, from an empty napari to the end of the work, and
counts clicks, keys and seconds. A file dialog and a dropped file are one action each, a menu entry
two clicks. Somebody from the hub paints two regions on an own photograph; a microscopist has a
blood smear and a label image of 43 cells (two BCCD pictures side by side, the cells as ellipses in
their boxes); an aerial analyst has a GeoTIFF (a tile of the Dubai set, given a place on earth here)
and a GeoJSON of 30 shapes; one uses the keyboard alone, to exported COCO. The last two name 500
cells of a folder of smears: together on the gallery's wall, and one by one. All use the
bundled model. The photographs' folder is taken from NAPARI_MASKINVERSION_DATA. Prints a table,
writes benchmarks/results/people.json, and with ``--pictures FOLDER`` a picture of each end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import measuring
import numpy as np
import skimage.io
import tifffile

DATA = Path(os.environ.get("NAPARI_MASKINVERSION_DATA", "."))
BLOOD = ("BloodImage_00037", "BloodImage_00010")
WORDS = {"RBC": "red blood cell", "WBC": "white blood cell", "Platelets": "platelet"}
TILE = "tile1_001"
LAND = ("building", "land", "road", "vegetation", "water")


class Person:
    """Hands on mouse and keyboard; counts what they do and how long they wait."""

    def __init__(self, viewer: Any) -> None:
        self.viewer, self.clicks, self.keys = viewer, 0, 0
        self.longest, self.panel = 0.0, None
        self.begun = time.monotonic()

    def wait(self, done: Callable[[], bool], seconds: float = 300.0) -> None:
        """Wait until something is seen."""
        from qtpy.QtWidgets import QApplication

        start = time.monotonic()
        while not done():
            QApplication.processEvents()
            time.sleep(0.002)
            if time.monotonic() - start > seconds:
                raise SystemExit(f"Waited in vain; the panel says: {self.panel.foot.status.text()}")

    def rest(self) -> None:
        """Let the window take what it was told."""
        end = time.monotonic() + 0.05
        self.wait(lambda: time.monotonic() > end)

    def click(self, widget: Any) -> None:
        """Click in the middle of a widget that is in view."""
        from qtpy.QtCore import Qt
        from qtpy.QtTest import QTest

        assert widget.isVisible(), widget
        assert not widget.visibleRegion().isEmpty(), f"{widget} is out of view"
        self.clicks += 1
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
        self.rest()

    def choose(self, button: Any, title: str) -> None:
        """Open the menu of a button, and take an entry."""
        assert button.isVisible()
        (entry,) = (one for one in button.menu().actions() if one.text().startswith(title))
        self.clicks += 2
        entry.trigger()
        self.rest()

    def key(self, key: str, widget: Any = None) -> None:
        """Press a key where the focus is, or in a widget."""
        from qtpy.QtCore import Qt
        from qtpy.QtTest import QTest
        from qtpy.QtWidgets import QApplication

        self.keys += 1
        *modifiers, name = key.split("+")
        modifier = Qt.KeyboardModifier.NoModifier
        if modifiers:
            modifier = Qt.KeyboardModifier.ControlModifier
        target = widget or QApplication.focusWidget() or self.panel
        QTest.keyClick(target, getattr(Qt.Key, f"Key_{name}"), modifier)
        self.rest()

    def type(self, text: str) -> None:
        """Type a text into what has the focus; it counts as one key a character."""
        from qtpy.QtTest import QTest
        from qtpy.QtWidgets import QApplication

        for line in text.split("\n"):
            if line != text.split("\n")[0]:
                self.key("Return")
            QTest.keyClicks(QApplication.focusWidget(), line)
            self.keys += len(line)
        self.rest()

    def answer(self, path: Path, ask: Callable[[], object]) -> None:
        """Do what opens a file dialog, and choose a path in it: one action more."""
        from qtpy.QtWidgets import QFileDialog

        answer = (str(path), "")
        with (
            mock.patch.object(QFileDialog, "getOpenFileName", return_value=answer),
            mock.patch.object(QFileDialog, "getSaveFileName", return_value=answer),
        ):
            ask()
        self.clicks += 1

    def open_panel(self) -> None:
        """Plugins > MaskInversion."""
        from napari_maskinversion._napari.plugin.commands import open_widget

        self.clicks += 2
        panels: list[Any] = []
        open_widget(self.viewer).when_made(panels.append)
        self.wait(lambda: bool(panels))
        (self.panel,) = panels
        self.panel.window().activateWindow()
        self.wait(self.panel.window().isActiveWindow, 10)
        self.rest()

    def open_tab(self, name: str) -> None:
        """Click on a tab of the panel."""
        self.clicks += 1
        self.panel.reveal(name)
        self.rest()

    def open_image(self, path: Path) -> None:
        """Drop a file on napari."""
        self.clicks += 1
        self.viewer.open(str(path))
        self.rest()

    def drop(self, path: Path) -> None:
        """Drop a file on the panel."""
        from qtpy.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
        from qtpy.QtGui import QDragEnterEvent, QDropEvent
        from qtpy.QtWidgets import QApplication

        mime = QMimeData()
        mime.setUrls([QUrl.fromLocalFile(str(path))])
        how = (
            Qt.DropAction.CopyAction,
            mime,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(self.panel, QDragEnterEvent(QPoint(5, 5), *how))
        QApplication.sendEvent(self.panel, QDropEvent(QPointF(5, 5), *how))
        self.clicks += 1
        self.rest()

    def next(self, expected: str, press: Callable[[], object] | None = None) -> None:
        """Press the one button once it offers a step."""
        self.wait(lambda: self.panel.foot.button.text().startswith(expected))
        self.wait(self.panel.foot.button.isEnabled)
        (press or (lambda: self.click(self.panel.foot.button)))()

    def suggestions(self) -> None:
        """Wait for the run."""
        start = time.monotonic()
        self.wait(lambda: self.panel.foot.button.text().startswith("Review"))
        self.longest = time.monotonic() - start

    def decide_all(self, right: Callable[[int], str]) -> int:
        """Decide each region with one key; return how often the first suggestion was right."""
        accepted, session = 0, self.panel.session
        self.wait(lambda: self.panel.review.state is not None)
        while session.undecided:
            left = session.undecided
            region = session.run.results.regions[session.review.row]
            word = right(region.id) or region.ranking.labels[0]
            choices = {choice.label: choice.key for choice in self.panel.review.state.choices}
            accepted += word == region.ranking.labels[0]
            self.key("A" if word == region.ranking.labels[0] else choices[word])
            self.wait(lambda left=left: session.undecided < left)
        return accepted

    def export(self, title: str, path: Path) -> None:
        """Take a format from the menu, which the one button has opened."""
        self.clicks += 1
        (entry,) = (
            one for one in self.panel.exports.part.export.menu().actions() if title in one.text()
        )
        self.answer(path, entry.trigger)
        self.wait(path.is_file)

    def record(self, **more: Any) -> dict[str, Any]:
        """Return what was counted."""
        return {
            "clicks": self.clicks,
            "keys": self.keys,
            "seconds": round(time.monotonic() - self.begun, 1),
            "longest_wait_s": round(self.longest, 1),
            **more,
        }


def from_the_hub(person: Person, folder: Path) -> dict[str, Any]:
    """Own photograph, two painted regions, three words."""
    from qtpy.QtCore import QPoint, Qt
    from qtpy.QtTest import QTest

    photograph = folder / "photograph.png"
    (some, *_) = sorted((DATA / "coco-panoptic/images").glob("*.jpg"))
    skimage.io.imsave(photograph, skimage.io.imread(some))
    person.open_image(photograph)
    person.open_panel()
    person.next("Draw regions")
    canvas = person.viewer.window._qt_viewer.canvas.native
    layer = person.viewer.layers.selection.active
    for place in (0.35, 0.65):
        spot = QPoint(int(canvas.width() * place), canvas.height() // 2)
        QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=spot)
        for step in range(0, 60, 6):
            QTest.mouseMove(canvas, spot + QPoint(0, step))
            person.rest()
        QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=spot + QPoint(0, 60))
        person.clicks += 1
        person.key("M", widget=canvas)
    painted = len(np.unique(np.asarray(layer.data))) - 1
    person.next("Choose words")
    person.type("person\ndog\ncar")
    person.next("Suggest words")
    person.suggestions()
    warned = person.panel.session.run.doubt is not None
    return person.record(regions=painted, exported="", warned=warned)


def microscopist(person: Person, folder: Path) -> dict[str, Any]:
    """Blood smear with 43 cells, to reviewed COCO."""
    truth = smear(folder)
    person.open_image(folder / "smear.png")
    person.open_panel()
    person.wait(lambda: person.panel.foot.button.text() == "Draw regions")
    person.drop(folder / "cells.tif")
    person.next("Choose words")
    person.type("\n".join(WORDS.values()))
    person.next("Suggest words")
    person.suggestions()
    person.next("Review")
    right = person.decide_all(lambda number: truth[number])
    person.next("Export")
    person.export("COCO (", folder / "smear_coco.json")
    exported = len(json.loads((folder / "smear_coco.json").read_text("utf-8"))["annotations"])
    return person.record(regions=len(truth), right_at_first=right, exported=f"{exported} in COCO")


def aerial_analyst(person: Person, folder: Path) -> dict[str, Any]:
    """GeoTIFF with 30 shapes of a GeoJSON, to GeoJSON."""
    count = tile(folder)
    person.open_image(folder / "tile.tif")
    person.open_panel()
    person.wait(lambda: person.panel.foot.button.text() == "Draw regions")
    person.drop(folder / "shapes.geojson")
    person.next("Choose words")
    person.type("\n".join(LAND))
    person.next("Suggest words")
    person.suggestions()
    person.next("Review")
    person.decide_all(lambda _: "")
    person.next("Export")
    person.export("GeoJSON (", folder / "tile.geojson")
    page = json.loads((folder / "tile.geojson").read_text("utf-8"))
    exported, system = len(page["features"]), page["crs"]["properties"]["name"]
    return person.record(regions=count, exported=f"{exported} in GeoJSON", system=system)


def keyboard_alone(person: Person, folder: Path) -> dict[str, Any]:
    """A sample scene, from the menu to exported COCO, without the mouse."""
    person.open_panel()
    person.clicks, person.keys = 0, 4  # the menu by its key, arrows and Return

    def press() -> None:
        person.key("Ctrl+Return")

    person.panel.input.image.setFocus()
    person.next("Open a sample", press)
    person.next("Suggest words", press)
    person.suggestions()
    person.next("Review", press)
    count = len(person.panel.session.run.results)
    person.decide_all(lambda _: "")
    person.next("Export", press)
    menu, path = person.panel.exports.part.export.menu(), folder / "sample_coco.json"
    person.wait(menu.isVisible)
    while menu.activeAction() is None or not menu.activeAction().text().startswith("COCO ("):
        person.key("Down", menu)
    person.answer(path, lambda: person.key("Return", menu))
    person.clicks, person.keys = 0, person.keys + 1  # Return in the dialog
    person.wait(path.is_file)
    exported = len(json.loads(path.read_text("utf-8"))["annotations"])
    return person.record(regions=count, exported=f"{exported} in COCO")


def on_the_wall(person: Person, folder: Path) -> dict[str, Any]:
    """500 cells of a folder of blood smears, from nothing, named together in the gallery."""
    truth = smears(folder)
    suggest_all(person, folder)
    gallery = person.panel.gallery
    person.open_tab("explore")
    person.click(gallery.opener)
    person.wait(lambda: not gallery.loader.busy)
    person.clicks += 2  # the list beside "Regions of", and its entry
    gallery.source.setCurrentText("The project")
    gallery.source.activated.emit(1)
    person.wait(lambda: not gallery.loader.busy)
    person.key("Ctrl+A", gallery.wall)
    person.key("A", gallery.wall)
    frame = gallery.model.table.frame
    person.wait(lambda: (frame["decision"] != "undecided").all())
    named = zip(frame["image"], frame["region"], frame["label"], strict=True)
    right = sum(truth[image, number] == word for image, number, word in named)
    return person.record(regions=len(truth), right_at_first=right, exported="")


def cell_by_cell(person: Person, folder: Path) -> dict[str, Any]:
    """The same cells, each with a key of the review."""
    truth = smears(folder)
    suggest_all(person, folder)
    session, names = person.panel.session, list(dict.fromkeys(name for name, _ in truth))
    right = 0
    for name in names:
        person.wait(lambda name=name: session.project.state.current == name)
        person.wait(lambda: bool(session.run.results))
        if name == names[0]:  # the review goes on by itself on the next ones
            person.next("Review")
        right += person.decide_all(lambda number, name=name: truth[name, number])
        if name != names[-1]:
            person.next("Next image")
    return person.record(regions=len(truth), right_at_first=right, exported="")


def suggest_all(person: Person, folder: Path) -> None:
    """Drop the folder, type words, and let all images be computed."""
    person.open_panel()
    person.drop(folder)
    person.next("Choose words")
    person.type("\n".join(WORDS.values()))
    person.open_tab("images")
    person.click(person.panel.images.part.suggest)
    person.wait(lambda: person.panel.session.status.many is not None)
    person.wait(lambda: person.panel.session.status.many is None)


def cells(name: str) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """Return a picture of BCCD, its cells as ellipses in their boxes, and their words."""
    picture, truth = skimage.io.imread(DATA / f"bccd/images/{name}.jpg"), dict[int, str]()
    plane = np.zeros(picture.shape[:2], np.uint16)
    ys, xs = np.mgrid[: plane.shape[0], : plane.shape[1]]
    for item in ET.parse(DATA / f"bccd/annotations/{name}.xml").iter("object"):
        left, top, right, bottom = (
            int(item.findtext(f"bndbox/{side}")) for side in ("xmin", "ymin", "xmax", "ymax")
        )
        inside = ((xs - (left + right) / 2) / max((right - left) / 2, 1)) ** 2 + (
            (ys - (top + bottom) / 2) / max((bottom - top) / 2, 1)
        ) ** 2 <= 1
        if (inside & (plane == 0)).sum() > 50:
            truth[len(truth) + 1] = WORDS[item.findtext("name")]
            plane[inside & (plane == 0)] = len(truth)
    return picture, plane, truth


def smear(folder: Path) -> dict[int, str]:
    """Write smear.png and cells.tif; return the right word of each of 43 cells."""
    pictures, labels, truth = [], [], dict[int, str]()
    for name in BLOOD:
        picture, plane, words = cells(name)
        plane[plane > 0] += len(truth)
        plane[plane > 43] = 0
        truth |= {len(truth) + number: word for number, word in words.items()}
        pictures.append(picture)
        labels.append(plane)
    skimage.io.imsave(folder / "smear.png", np.concatenate(pictures, axis=1))
    tifffile.imwrite(folder / "cells.tif", np.concatenate(labels, axis=1))
    return {number: word for number, word in truth.items() if number <= 43}


def smears(folder: Path) -> dict[tuple[str, int], str]:
    """Write images and masks until there are 500 cells; return the right word of each."""
    truth = dict[tuple[str, int], str]()
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
    for file in sorted((DATA / "bccd/images").glob("*.jpg")):
        picture, plane, words = cells(file.stem)
        if words and len(truth) < 500:
            skimage.io.imsave(folder / "images" / f"{file.stem}.png", picture)
            mask = folder / "masks" / f"{file.stem}.png"
            skimage.io.imsave(mask, plane, check_contrast=False)
            truth |= {(f"{file.stem}.png", number): word for number, word in words.items()}
    return truth


def tile(folder: Path) -> int:
    """Write tile.tif with a place on earth and shapes.geojson in pixels; return their number."""
    picture = skimage.io.imread(DATA / f"dubai-aerial/images/{TILE}.jpg")
    scale, origin = (0.5, 0.5, 0.0), (0, 0, 0, 325_000.0, 2_780_000.0, 0)
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32640)
    tifffile.imwrite(
        folder / "tile.tif",
        picture,
        photometric="rgb",
        extratags=[
            (33550, 12, 3, scale, True),
            (33922, 12, 6, origin, True),
            (34735, 3, len(keys), keys, True),
        ],
    )
    rows, columns = 5, 6
    high, wide = picture.shape[0] / rows, picture.shape[1] / columns
    features = []
    for k in range(rows * columns):
        y, x = (k // columns + 0.2) * high, (k % columns + 0.2) * wide
        corners = [[x, y], [x + 0.6 * wide, y], [x + 0.5 * wide, y + 0.6 * high], [x, y]]
        shape = {"type": "Polygon", "coordinates": [corners]}
        features.append({"type": "Feature", "properties": {"id": k + 1}, "geometry": shape})
    page = {"type": "FeatureCollection", "features": features}
    (folder / "shapes.geojson").write_text(json.dumps(page), "utf-8")
    return len(features)


PEOPLE = (
    *(from_the_hub, microscopist, aerial_analyst, keyboard_alone),
    *(on_the_wall, cell_by_cell),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[one.__name__ for one in PEOPLE])
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "people.json")
    chosen = parser.parse_args()
    print("| person | regions | clicks | keys | seconds | longest wait, s | exported |")
    print("|---|---|---|---|---|---|---|")
    for act in PEOPLE:
        if chosen.only and act.__name__ not in chosen.only:
            continue
        with tempfile.TemporaryDirectory() as own:
            for name in ("CACHE", "CONFIG"):
                os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(own) / name.lower())
            import napari

            viewer = napari.Viewer()
            viewer.window.resize(1366, 768)
            person = Person(viewer)
            row = act(person, Path(own))
            if chosen.pictures is not None:
                chosen.pictures.mkdir(parents=True, exist_ok=True)
                person.rest()
                window = viewer.window._qt_window
                window.grab().save(str(chosen.pictures / f"{act.__name__}.png"))
            person.panel.shut_down()
            viewer.close()
        measuring.keep(chosen.out, act.__name__, row)
        print(
            f"| {act.__name__} | {row['regions']} | {row['clicks']} | {row['keys']} "
            f"| {row['seconds']} | {row['longest_wait_s']} | {row['exported'] or '-'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
