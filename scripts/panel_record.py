"""What pictures of the panel show by name: tabs, sections, buttons, columns, settings.

`docs_pictures.py` keeps it beside the pictures in docs/images/panel.json. A test compares it with
the panel, so pictures that are out of date are noticed.
"""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "docs" / "images" / "panel.json"


def titles(panel: Any) -> dict[str, Any]:
    """Return the names in a panel that has just been opened, without an image."""
    tabs = {
        panel.tabs.tabText(place): _parts(panel.tabs.widget(place))
        for place in range(panel.tabs.count())
    }
    pages = panel.controller.settings.list
    return {"tabs": tabs, "settings": [pages.item(row).text() for row in range(pages.count())]}


def _parts(area: Any) -> dict[str, list[str]]:
    from qtpy.QtCore import Qt
    from qtpy.QtWidgets import QAbstractButton, QCheckBox, QMenu, QTableView

    from napari_maskinversion._napari.widgets.sections import Section

    sections = area.findChildren(Section)
    arrows = {section.toggle for section in sections}
    buttons = [one for one in area.findChildren(QAbstractButton) if one not in arrows]
    buttons = [one for one in buttons if not isinstance(one.parent(), QMenu)]  # in no picture
    names = {"options": [], "buttons": []}
    for button in buttons:
        names["options" if isinstance(button, QCheckBox) else "buttons"].append(button.text())
    models = [table.model() for table in area.findChildren(QTableView) if table.model()]
    columns = [
        str(model.headerData(column, Qt.Orientation.Horizontal))
        for model in models
        for column in range(model.columnCount())
    ]
    return {
        "sections": [section.title for section in sections],
        **{kind: [text for text in texts if text] for kind, texts in names.items()},
        "columns": columns,
    }


def write(names: dict[str, Any]) -> None:
    """Keep what `titles` returned."""
    FILE.write_text(json.dumps(names, indent=1, ensure_ascii=False) + "\n", "utf-8")
