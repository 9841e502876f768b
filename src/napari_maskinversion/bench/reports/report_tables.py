"""Figures of the bench commands as Markdown, beside the paper's where it has the like."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from ...engine.methods.registry import METHODS
from ..paper.tables import METRICS, SETS, TABLES, WITH_SENTENCES, Row

Page = dict[str, Any]
INTERVALS: Final = "In brackets: 95 % interval, from 2,000 resamplings of whole"


def markdown(page: Page) -> str:
    """Return the figures of a command on a data set as Markdown."""
    s = page["settings"]
    parts = page["parts"].values()
    if s["context"] is None:
        shown = "the whole image"
    else:
        shown = f"a window of {s['context']:g} boxes"
    left = ""
    if small := page.get("small", 0):
        left = f" ({small} that are too small left out)"
    blocks = [
        f"{s['data']}: {len(s['classes'])} classes, {page['images']} images, {page['regions']} "
        f"regions{left}; the model sees {shown}; {inversion_words(s)}; {page['date'][:10]}, "
        f"`{page['command']}`. {INTERVALS} images."
    ]
    for model in s["models"]:
        if parts_of_model := [part for part in parts if part["model"] == model]:
            blocks.append(_model(page, model, parts_of_model))
    said = []
    for part in parts:
        if found_by_words := part.get("expressions"):
            for figures in [[found_by_words[name] for name in ("acc1", "miou", "oiou")]]:
                said.append(
                    [
                        f"{part['title']}, {part['model']}",
                        *map(percent, figures),
                        str(found_by_words["count"]),
                    ]
                )
    head = ["regions found by words, %", "Acc@1", "mIoU", "oIoU", "expressions"]
    blocks.append(markdown_table(head, said) if said else "")
    blocks.append(listed_out(page["skipped"].values()))
    return joined([*blocks, paper_tables(page["kind"], s["data"])])


def joined(blocks: Iterable[str]) -> str:
    """Return paragraphs and tables as a document; empty ones are left out."""
    return "\n\n".join(block for block in blocks if block) + "\n"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows below a header as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def percent(figure: dict[str, float]) -> str:
    """Return a share with its interval as text."""
    low = 100 * figure["low"]
    high = 100 * figure["high"]
    return f"{100 * figure['value']:.1f} ({low:.0f}–{high:.0f})"


def listed_out(skipped: Collection[str]) -> str:
    """Return what was left out as a list."""
    if skipped:
        return "Left out:\n\n" + "\n".join(f"- {why}" for why in skipped)
    return ""


def _model(page: Page, model: str, parts: Sequence[Page]) -> str:
    titles = {"acc1": "Acc@1", "acc5": "Acc@5", "acc10": "Acc@10", "macro": "macro Acc@1"}
    first = next((part for part in parts if "lacks" not in part), {"acc1": None})
    columns = [name for name in titles if name in first]
    overlaps = any("iou" in part for part in parts)
    head = [f"%, model {model}", *(titles[name] for name in columns)]
    head += ["heatmap IoU"] * overlaps + ["ms a region"]
    rows = []
    for part in parts:
        row = [part["title"], part.get("lacks", "")]
        if "lacks" not in part:
            row = [part["title"], *(percent(part[name]) for name in columns)]
            row += [f"{part['iou']['value']:.2f}" if "iou" in part else ""] * overlaps
            row.append(f"{1000 * part['seconds']:.0f}")
        rows.append(row)
    rows.append(["guessing", f"{100 / len(page['settings']['classes']):.1f}"])
    rows = [row + [""] * (len(head) - len(row)) for row in rows]
    if papers := _paper_column(page["kind"], page["settings"]["data"]):
        head.append(f"the paper: COCO, 80 classes, {BACKBONE}")
        keys = [*(part["key"] for part in parts), None]
        rows = [[*row, papers.get(key, "")] for row, key in zip(rows, keys, strict=True)]
    return markdown_table(head, rows)


def inversion_words(settings: Page) -> str:
    """Return the settings of an inversion in words."""
    i = settings["inversion"]
    return f"K = {i['steps']}, learning rate {i['learning_rate']:g}, alpha {i['alpha']:g}"


# -- the paper's figures ----------------------------------------------------------------------
# A figure has a column next to ours only where the images are of the same kind; it is below the
# table if only the experiment is the same. ``bench paper`` runs the paper's own experiments.

BACKBONE: Final = "ViT-B/16"  # of every figure unless stated
_COUNTS: Final = {"voc": 19, "context": 59, "coco": 80, "openimages": 350}  # classes of the sets
_ALIKE: Final = {
    "alpha": ("alpha", "by alpha: RefCOCO"),
    "masks": ("4", "by mask: COCO, 80 classes"),
    "maps": ("maps", "by map: VOC, 19 classes"),
}
_OURS: Final = "maskinversion"


def _printed(row: Row, metric: str = "acc1", sets: Iterable[str] = _COUNTS) -> list[str]:
    return [f"{row.values[name, metric]:.1f}" for name in sets]


def _paper_column(kind: str, data: str) -> dict[str | None, str]:
    """Return the paper's figures of COCO by the keys of our entries; empty if there are none."""
    if data != "coco-panoptic" or kind not in (data, "methods", "masks"):
        return {}
    if kind == "masks":
        rows = TABLES["4"].rows
        return {f"{_OURS}/{row.title}": _printed(row, sets=["coco"])[0] for row in rows}
    rows = (*TABLES["2"].rows, *TABLES["3"].rows)
    every = {}
    for row in rows:
        every[(row.method, row.backbone)] = _printed(row, sets=["coco"])[0]
    cells: dict[str | None, str] = {}
    for (name, size), v in every.items():
        if size == "B/16":
            cells[name] = v
    larger = [f"ViT-{size} {every[_OURS, size]}" for size in ("B/32", "L/14", "H/14")]
    cells[_OURS] += f" ({', '.join(larger)})"
    return cells


def paper_tables(kind: str, data: str = "") -> str:
    """Return the paper's figures for the same experiment as Markdown, or ""."""
    if kind in _ALIKE:
        name, experiment = _ALIKE[kind]
        figures = {}
        for r in TABLES[name].rows:
            for v in r.values.values():
                figures[r.title] = f"{v:.1f}"
        head = [f"the paper, {BACKBONE}, Acc@1, %, {experiment}", *figures]
        return markdown_table(head, [["MaskInversion", *figures.values()]])
    if data == "coco-panoptic" and kind in (data, "methods"):
        return _retrieval()
    return ""


def _our_row(table: str) -> Row:
    """Return the paper's row of MaskInversion with its usual backbone."""
    for row in TABLES[table].rows:
        if (row.method, row.backbone) == (_OURS, "B/16"):
            return row
    raise KeyError(table)


def _retrieval() -> str:
    head = ["the paper: Acc@1, % (classes)", "backbone"]
    head += [f"{SETS[name]} ({count})" for name, count in _COUNTS.items()]
    every = (*TABLES["2"].rows, *TABLES["3"].rows)
    shown = [row for row in every if row.backbone == "B/16" and row.method != _OURS]
    shown += [row for row in TABLES["2"].rows if row.method == _OURS]
    rows = []
    for row in shown:
        rows.append([METHODS[row.method].title, f"ViT-{row.backbone}", *_printed(row)])
    first_row = _our_row("2")
    with_sentences = _our_row("1")
    for metric in ("acc5", "acc10"):
        title = f"{METHODS[_OURS].title}, {METRICS[metric]}"
        rows.append([title, BACKBONE, *_printed(first_row, metric)])
    words = []
    for name in WITH_SENTENCES:
        figures = []
        for (on, m), value in with_sentences.values.items():
            if on == name:
                figures.append(f"{METRICS[m]} {value}")
        alpha = "5" if name.startswith("refcoco") else "0"
        about = f"MaskInversion, {SETS[name]}, all masks of the image"
        words.append([about, alpha, ", ".join(figures)])
    told_head = [f"the paper: regions found by words, {BACKBONE}", "alpha", "figures"]
    return markdown_table(head, rows) + "\n\n" + markdown_table(told_head, words)
