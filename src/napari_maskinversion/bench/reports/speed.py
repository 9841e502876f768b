"""Figures of ``bench speed`` as tables."""

from itertools import groupby

from .report_tables import Page, joined, markdown_table


def markdown(page: Page) -> str:
    """Return the figures as Markdown."""
    s = page["settings"]
    blocks = [f"{s['hardware']}, torch {s['torch']}; {s['architecture']}, {s['side']} px."]
    for table, names in groupby(page["parts"], lambda name: name.split("/")[0]):
        rows = [page["parts"][name] for name in names]
        shown = {}
        for row in rows:
            for key in row:
                if key not in ("date", "seconds"):
                    shown[key] = ""
        lines = []
        for row in rows:
            lines.append([table, *(_text(row.get(key, "")) for key in shown)])
        blocks.append(markdown_table(["", *(key.replace("_", " ") for key in shown)], lines))
    return joined(blocks)


def _text(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
