"""Pictures of every tab of the panel, to look at: 320 and 420 px wide, light and dark.

    xvfb-run -a -s "-screen 0 1600x1000x24" python scripts/panel_pictures.py --out FOLDER

One file a width and theme and moment: tabs stand side by side. Nothing of the documentation uses
them; `docs_pictures.py` makes those. The user's files are neither read nor written.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docs_pictures import Window, beside

WIDTHS, THEMES = (320, 420), ("light", "dark")
WINDOW = (1366, 768)


def moments(window: Window) -> Iterator[tuple[str, list[Callable[[], object]]]]:
    """Bring the panel from one moment to the next; yield its name and what shows each part."""
    from napari_maskinversion._napari.panel.topics import TABS
    from napari_maskinversion._napari.widgets.sections import Section

    panel, viewer = window.panel, window.viewer

    def tab(name: str) -> Callable[[], object]:
        return lambda: panel.reveal(name)

    tabs = [tab(name) for name in TABS]
    yield "empty", tabs
    viewer.open_sample("napari-maskinversion", "coffee")
    window.wait(lambda: panel.session.run.image_unknown)
    yield "photograph", tabs[:1]
    viewer.layers.clear()
    window.open_sample("everyday-1")
    window.rest(1)
    yield "sample", tabs[:1]
    window.run()
    window.pick(0)
    yield "suggestions", tabs
    window.review()
    window.decide(1)
    yield "review", tabs[1:2]
    window.decide(9)
    window.end_review()
    yield "images", tabs[3:]
    for section in panel.tabs.areas["explore"].findChildren(Section):
        panel.reveal("explore")
        above = [one for one in _outside(section) if not one.is_open]
        for one in (*above, section):
            one.open()
        window.rest()
        yield f"explore-{_in_file(section.title)}", tabs[2:3]
        for one in (section, *above):
            one.toggle.setChecked(False)


def _outside(section: Any) -> list[Any]:
    """Return the sections that hold a section."""
    from napari_maskinversion._napari.widgets.sections import Section

    outside, widget = [], section.parentWidget()
    while widget is not None:
        outside += [widget] if isinstance(widget, Section) else []
        widget = widget.parentWidget()
    return outside


def _in_file(title: str) -> str:
    return title.lower().replace(" ", "-")


def shoot(window: Window, out: Path, name: str, parts: list[Callable[[], object]]) -> None:
    """Write the parts side by side, in each width and theme."""
    for width in WIDTHS:
        window.widen(width)
        for theme in THEMES:
            window.viewer.theme = theme
            pictures: list[Any] = []
            for show in parts:
                show()
                window.rest(0.5)
                pictures.append(window.panel.grab())
            beside(pictures).save(str(out / f"{name}-{width}-{theme}.png"))
    widths = {picture.width() for picture in pictures}
    print(name, *sorted(widths), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        for name in ("CACHE", "CONFIG"):
            os.environ[f"NAPARI_MASKINVERSION_{name}"] = str(Path(own) / name.lower())
        window = Window(options.out)
        window.viewer.window.resize(*WINDOW)
        for name, parts in moments(window):
            shoot(window, options.out, name, parts)
        dialog = window.panel.controller.settings
        for row in range(dialog.list.count()):
            page = dialog.list.item(row).text()
            dialog.bring(page)
            shoot_dialog(window, dialog, options.out, f"settings-{_in_file(page)}")
        dialog.hide()
        window.panel.segment.dialog.bring()
        shoot_dialog(window, window.panel.segment.dialog, options.out, "segment")
        window.panel.segment.dialog.hide()
        window.close()


def shoot_dialog(window: Window, dialog: Any, out: Path, name: str) -> None:
    """Write a dialog in both themes."""
    for theme in THEMES:
        window.viewer.theme = theme
        window.rest(0.5)
        dialog.grab().save(str(out / f"{name}-{theme}.png"))
    print(name, dialog.width(), dialog.height(), flush=True)


if __name__ == "__main__":
    main()
