"""Figures as Markdown and as plots; those of data sets as the package shows them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from napari_maskinversion.base.atomic_files import atomic_path
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.reports import plots, report_tables
from napari_maskinversion.bench.reports.plots import band, bars, in_both_looks, new_figure
from napari_maskinversion.bench.reports.report_tables import (
    BACKBONE,
    INTERVALS,
    inversion_words,
    joined,
    listed_out,
    markdown_table,
    paper_tables,
    percent,
)

from .methods import SCENE_METHODS
from .sprites import UNSEEN_STYLE

Page = dict[str, Any]
KINDS: Final = {
    "seen": "seen styles",
    "unseen": f"unseen style ({UNSEEN_STYLE})",
    "bundled": "bundled drawings",
}
SHADES: Final = (0.9, 0.6, 0.35, 0.25, 0.15)  # opacity of bars for more and more objects
STEPS_OF_THE_PAPER: Final = (
    f"The paper, {BACKBONE}: accuracy on VOC rises steeply to about 85 % by step 10 and "
    "stays flat to step 100, while the loss still creeps down."
)


def markdown(page: Page) -> str:
    """Return the figures of any bench command as Markdown."""
    kinds = {"scenes": _scenes, "captions": _captions, "steps": _curves, "alpha": _curves}
    make = kinds.get(page["kind"])
    return report_tables.markdown(page) if make is None else joined(make(page))


def plot(page: Page, folder: Path) -> list[Path]:
    """Draw the figures of any bench command that draws plots."""
    kinds = {"scenes": _draw_scenes, "steps": _draw_curves, "alpha": _draw_curves}
    draw = kinds.get(page["kind"])
    if draw is None:
        return plots.plot(page, folder)
    return in_both_looks(page["kind"], folder, lambda colours: draw(page, colours["lines"]))


def write_into(document: Path, kind: str, text: str) -> None:
    """Replace the text between a document's ``<!-- bench KIND -->`` and its end mark."""
    begin, end = f"<!-- bench {kind} -->", f"<!-- end of bench {kind} -->"
    head, opened, rest = document.read_text("utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    if not (opened and closed):
        raise InputError(f"{document} needs one line '{begin}' and one '{end}' after it.")
    with atomic_path(document) as part:
        part.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")


def percents(title: str, figures: Iterable[dict[str, float]]) -> list[str]:
    """Return a row of shares."""
    return [title, *map(percent, figures)]


def left_out(page: Page) -> list[str]:
    """Return why ``bench scenes`` left out real images."""
    every = (why for part in page["parts"].values() for why in part.get("skipped", []))
    return list(dict.fromkeys(every))


# -- tables -----------------------------------------------------------------------------------


def _overlap(figure: dict[str, float]) -> str:
    return f"{figure['value']:.2f} ({figure['low']:.2f}–{figure['high']:.2f})"


def _overlaps(parts: Iterable[Page]) -> list[str]:
    return ["heatmap-to-mask IoU", *(_overlap(part["iou"]) for part in parts)]


def _parts(page: Page, start: str) -> dict[str, Any]:
    """Return the parts whose names begin so, by the rest of their names."""
    parts = page["parts"].items()
    return {name.removeprefix(start): part for name, part in parts if name.startswith(start)}


def _about(page: Page) -> str:
    s, dates = page["settings"], sorted(p["date"] for p in page["parts"].values())
    return (
        f"Model {s['model']} (fingerprint {s['fingerprint']}), {s['names']} names, "
        f"{s['scenes']} scenes of each kind, {inversion_words(s)}; {dates[-1][:10]}, "
        f"`{page['command']}`. {INTERVALS} scenes or images (not of regions: "
        "those of one image are correlated)."
    )


def _scenes(page: Page) -> list[str]:
    blocks = [_about(page)]
    lacks = page["settings"].get("lacks", {})
    able = {key: method.title for key, method in SCENE_METHODS.items() if key not in lacks}
    singles, real, choices = (_parts(page, start) for start in ("single/", "real/", "choice/"))
    if singles:
        rows = [percents(f"top-{k}, %", (p[f"top{k}"] for p in singles.values())) for k in (1, 5)]
        count = next(iter(singles.values()))["scenes"]
        about = f"one object, image embedding ({count} scenes)"
        blocks.append(markdown_table([about, *(KINDS[k] for k in singles)], rows))
    for kind, title in KINDS.items():
        if counts := _parts(page, f"regions/{kind}/"):
            head = [f"region top-1, %, {title}", *(f"{n} objects" for n in counts)]
            parts, rest = counts.values(), [""] * (len(counts) - 1)
            rows = [percents(able[key], (p["ways"][key]["top1"] for p in parts)) for key in able]
            rows += [[SCENE_METHODS[key].title, why, *rest] for key, why in lacks.items()]
            blocks.append(markdown_table(head, [*rows, _overlaps(parts)]))
    if real:
        blocks.append(_real(real, able))
    if choices:
        rows = [
            [title, *(_setting(choice[key]["setting"]) for choice in choices.values())]
            for key, title in able.items()
        ]
        blocks.append(markdown_table(["setting chosen on validation images", *choices], rows))
    return [*blocks, listed_out(left_out(page))]


def _real(real: Page, able: dict[str, str]) -> str:
    parts = real.values()
    head = [
        f"{kind}: {p['regions']} regions, {p['images']} images, {len(p['classes'])} names"
        for kind, p in real.items()
    ]
    rows = [
        *(percents(title, (p["ways"][key] for p in parts)) for key, title in able.items()),
        percents("size and colour alone (trained)", (p["size_and_colour"] for p in parts)),
        ["most frequent class", *(f"{100 * p['majority']:.1f}" for p in parts)],
        _overlaps(parts),
    ]
    return markdown_table(["test split, macro-averaged top-1, %", *head], rows)


def _setting(setting: Page) -> str:
    words = [f"{setting['resolution']} px"]
    if "context" in setting:
        context = setting["context"]
        words.append(context if isinstance(context, str) else f"context {context:g}")
    if "fill" in setting:
        words.append(f"fill {setting['fill']}")
    if "reading" in setting:
        words.append(f"tokens of the {setting['reading']}")
    return ", ".join(words)


def _curves(page: Page) -> list[str]:
    by_step = page["kind"] == "steps"
    blocks = [_about(page)]
    for kind, part in page["parts"].items():
        head = [f"{'step' if by_step else 'alpha'}, {KINDS[kind]}", "region top-1, %"]
        head += ["heatmap-to-mask IoU", "Dice loss", "cosine to the image's embedding"]
        points = zip(*(part[k] for k in ("values", "top1", "iou", "dice", "cosine")), strict=True)
        rows = [
            [f"{value:g}", percent(top1), _overlap(iou), f"{dice:.3f}", f"{cosine:.2f}"]
            for value, top1, iou, dice, cosine in points
        ]
        blocks.append(markdown_table(head, rows))
    return [*blocks, STEPS_OF_THE_PAPER if by_step else paper_tables("alpha")]


_CAPTIONS: Final = {
    "class": "nearest name of all is right",
    "named": "sentence names the right thing",
    "alone": "sentence names it and nothing else",
    "as_class": "sentence names the nearest name",
}
_TITLES: Final = {
    **{f"regions/{kind}": f"scenes, {title}" for kind, title in KINDS.items()},
    **{"real/aerial": "aerial images", "real/blood": "blood smears", "real/nuclei": "nuclei"},
}


def _captions(page: Page) -> list[str]:
    settings, parts = page["settings"], page["parts"]
    dates = sorted(part["date"] for part in parts.values())
    blocks = [
        f"Decoder {settings['decoder']}, model {settings['model']} (fingerprint "
        f"{settings['fingerprint']}), {settings['names']} names to choose from, "
        f"{settings['scenes']} scenes of {settings['objects']} things of each kind; "
        f"{dates[-1][:10]}, `{page['command']}`. {INTERVALS} images."
    ]
    shown = {_TITLES[name]: part for name, part in parts.items() if name in _TITLES}
    if shown:
        measured = shown.values()
        head = ["%", *(f"{title} ({part['regions']} regions)" for title, part in shown.items())]
        rows = [percents(title, (p[key] for p in measured)) for key, title in _CAPTIONS.items()]
        told = "nearest of six colour words is the region's"
        rows.append(percents(told, (part["colour"]["told"] for part in measured)))
        often = (f"{100 * part['colour']['most_frequent']:.1f}" for part in measured)
        blocks.append(markdown_table(head, [*rows, ["the most frequent colour", *often]]))
    if texts := parts.get("texts"):
        blocks.append(
            f"Of {texts['texts']} texts about one thing, in words that the decoder was not trained "
            f"on, it names the thing in {percent(texts['named'])} %."
        )
    if examples := [pair for part in shown.values() for pair in part["examples"][:3]]:
        blocks.append(markdown_table(["region shows", "sentence"], examples))
    return blocks


# -- plots ------------------------------------------------------------------------------------


def _draw_curves(page: Page, colours: Any) -> Any:
    """Draw accuracy, overlap and loss over the steps, or over alpha."""
    figure = new_figure(9.6, 3.2)
    frames = figure.subplots(1, 3)
    panels = (("top1", "region top-1, %"), ("iou", "heatmap-to-mask IoU"), ("dice", "Dice loss"))
    for frame, (key, title) in zip(frames, panels, strict=True):
        for (kind, part), colour in zip(page["parts"].items(), colours, strict=False):
            style = {"marker": "o", "ms": 2.5, "lw": 1.4, "color": colour, "label": KINDS[kind]}
            band(frame, part["values"], part[key], 100 if key == "top1" else 1, **style)
        if page["kind"] == "alpha":
            frame.set_xscale("symlog", linthresh=1)
            ticks = (0, 1, 2, 5, 10, 30)
            frame.set_xticks(ticks, [str(t) for t in ticks])
        frame.set(title=title, xlabel="step" if page["kind"] == "steps" else "alpha")
        frame.grid(True, linewidth=0.6)
    frames[0].legend(frameon=False)
    return figure


def _panels(page: Page) -> list[tuple[str, dict[str, Page], float]]:
    """Return title, figures by group and method, and the share of guessing."""
    panels = []
    for kind, title in KINDS.items():
        if shares := _parts(page, f"regions/{kind}/"):
            groups = {
                f"{count} objects": {key: figure["top1"] for key, figure in part["ways"].items()}
                for count, part in shares.items()
            }
            panels.append((title, groups, 1 / page["settings"]["names"]))
    real = _parts(page, "real/").items()
    return panels + [(kind, {"": part["ways"]}, part["majority"]) for kind, part in real]


def _draw_scenes(page: Page, colours: Any) -> Any:
    """Draw region top-1 of every method on scenes of each kind and on each kind of real images."""
    panels = _panels(page)
    if not panels:
        raise InputError("No part with regions is finished; run 'bench scenes' to its end.")
    lacks = page["settings"].get("lacks", {})
    methods = [method for method in SCENE_METHODS if method not in lacks]
    figure = new_figure(2.0 + 2.2 * len(panels), 1.4 + 0.42 * len(methods))
    frames = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for frame, (title, groups, guessing) in zip(frames, panels, strict=True):
        thick = 0.8 / len(groups)
        for number, (group, shares) in enumerate(groups.items()):
            shown = [method for method in methods if method in shares]
            middle = thick * (number - (len(groups) - 1) / 2)
            places = [methods.index(method) + middle for method in shown]
            style = {"color": colours[0], "alpha": SHADES[number], "label": group}
            bars(frame, places, [shares[m] for m in shown], thick, ecolor=colours[1], **style)
        frame.axvline(100 * guessing, lw=1, ls=":", color=colours[1])
        frame.set(title=title, xlabel="region top-1, %", xlim=(0, 100))
        frame.set_yticks(range(len(methods)), [SCENE_METHODS[method].title for method in methods])
        frame.grid(True, axis="x", linewidth=0.6)
    frames[0].invert_yaxis()
    if len(panels[0][1]) > 1:
        style = {"loc": "outside lower center", "ncols": 5, "frameon": False}
        figure.legend(*frames[0].get_legend_handles_labels(), **style)
    return figure
