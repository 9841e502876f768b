"""Figures of methods, maps and masks as Markdown, with the paper's."""

from __future__ import annotations

from typing import Any

from . import paper


def method_tables(page: dict[str, Any]) -> str:
    """Return tables of ``bench folder``, ``maps``, ``masks`` and similar commands."""
    settings, parts = page["settings"], page["parts"]
    blocks = [_about(page)]
    for model in settings["models"]:
        mine = {key: part for key, part in parts.items() if part["model"] == model}
        if mine:
            blocks.append(_model(page, model, mine))
    if any("expressions" in part for part in parts.values()):
        blocks.append(_words(page))
    if page["skipped"]:
        lines = [f"- {why}" for why in page["skipped"].values()]
        blocks.append("Left out:\n\n" + "\n".join(lines))
    blocks.append(paper.tables(page["kind"], settings["data"]))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _about(page: dict[str, Any]) -> str:
    s = page["settings"]
    inversion = s["inversion"]
    shown = "the whole image" if s["context"] is None else f"a window of {s['context']:g} boxes"
    small = page.get("small", 0)
    left = f" ({small} that are too small left out)" if small else ""
    return (
        f"{s['data']}: {len(s['classes'])} classes, {page['images']} images, {page['regions']} "
        f"regions{left}; the model sees {shown}; K = {inversion['steps']}, learning rate "
        f"{inversion['learning_rate']:g}, alpha {inversion['alpha']:g}; {page['date'][:10]}, "
        f"`{page['command']}`. In brackets: 95 % interval, from 2,000 resamplings of whole images."
    )


def _model(page: dict[str, Any], model: str, mine: dict[str, Any]) -> str:
    first = next((part for part in mine.values() if "lacks" not in part), {"acc1": None})
    columns = [name for name in ("acc1", "acc5", "acc10", "macro") if name in first]
    titles = {"acc1": "Acc@1", "acc5": "Acc@5", "acc10": "Acc@10", "macro": "macro Acc@1"}
    head = [f"%, model {model}", *(titles[name] for name in columns)]
    overlaps = any("iou" in part for part in mine.values())
    head += ["heatmap IoU"] * overlaps + ["ms a region"]
    title, paper_cells = paper.paper_column(page["kind"], page["settings"]["data"])
    if title:
        head.append(title)
    rows = []
    for part in mine.values():
        if "lacks" in part:
            row = [part["title"], part["lacks"], *[""] * (len(head) - 2)]
            rows.append([*row[:-1], paper_cells.get(part["key"], "")] if title else row)
            continue
        row = [part["title"], *(percent(part[name]) for name in columns)]
        if overlaps:
            row.append(f"{part['iou']['value']:.2f}" if "iou" in part else "")
        row.append(f"{1000 * part['seconds']:.0f}")
        if title:
            row.append(paper_cells.get(part["key"], ""))
        rows.append(row)
    chance = 100 / len(page["settings"]["classes"])
    rows.append(["guessing", f"{chance:.1f}", *[""] * (len(head) - 2)])
    return table(head, rows)


def _words(page: dict[str, Any]) -> str:
    rows = []
    for part in page["parts"].values():
        expressions = part.get("expressions")
        if expressions:
            row = [f"{part['title']}, {part['model']}"]
            row += [percent(expressions[name]) for name in ("acc1", "miou", "oiou")]
            rows.append([*row, str(expressions["count"])])
    head = ["regions found by words, %", "Acc@1", "mIoU", "oIoU", "expressions"]
    return table(head, rows)


def percent(figure: dict[str, float]) -> str:
    """Return a share with its interval as text."""
    low, high = 100 * figure["low"], 100 * figure["high"]
    return f"{100 * figure['value']:.1f} ({low:.0f}–{high:.0f})"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return rows below a header as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
