"""Figures on pages, from `benchmarks/results/*.json` alone."""

import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from napari_maskinversion.bench.paper.tables import TABLES
from napari_maskinversion.bench.reports.plots import LOOKS
from napari_maskinversion.bench.reports.report_tables import markdown_table as table
from napari_maskinversion.bench.reports.report_tables import paper_tables, percent
from napari_maskinversion.demo_model.scene_words import REAL
from napari_maskinversion.engine.methods.registry import METHODS, TYPICAL
from napari_maskinversion.engine.models.specs import DEMO, MODELS, bundled_folder
from napari_maskinversion.images.known_images import REFERENCES

sys.path.append(str(Path(__file__).parents[2]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.reports import markdown

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
EARLIER = (
    "*Measured with earlier weights of the bundled model: those of this version were trained "
    "since.*"
)
# What of a command says where its figures went, not what was measured.
TARGETS = re.compile(r" --(?:into|plots|json|write|out) [^\s`-][^\s`]*| --overwrite| --plots")

_FOUND = ("precision", "recall")


@cache
def kept(name):
    """Return the content of a file of figures, named without its ending."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def figure(name, *keys, digits=0, scale=1):
    """Return one figure of a file: its place as keys, then the digits to show."""
    value = kept(name)
    for key in keys:
        value = value[key]
    return value if isinstance(value, str) else f"{scale * value:.{digits}f}"


def demo():
    """Return what the bundled model knows: numbers of names by kind, and its megabytes."""
    names = {n for n in (bundled_folder() / "vocabulary.txt").read_text("utf-8").split("\n") if n}
    kinds = Counter(entry.group for entry in REAL if entry.name in names)
    drawn = len(names) - kinds.total()
    return {"names": len(names), "drawn": drawn, "real": kinds.total(), **kinds} | {
        "megabytes": MODELS[DEMO].size_mb
    }


def demo_figures():
    """Return the bundled model's figures as one paragraph; README has it too."""
    parts, knows = kept("scenes")["parts"], demo()

    def share(part, *keys):
        value = parts[part]
        for key in (*keys, "value"):
            value = value[key]
        return f"{100 * value:.0f} %"

    def objects(style):
        return share(f"single/{style}", "top1")

    def regions(style):
        return share(f"regions/{style}/3", "ways", "maskinversion", "top1")

    wide = figure("windows", "test", "aerial", "automatic", "macro", scale=100) + " %"
    return (
        f"It knows {knows['drawn']} drawn things and {knows['real']} classes in real images: "
        f"{knows['aerial']} kinds of land cover, {knows['blood']} kinds of blood cells and "
        f"{knows['nuclei']} kinds of nuclei. In new scenes of its drawings it names "
        f"{objects('seen')} of single objects correctly in art styles that it was trained on, "
        f"and {objects('unseen')} in a style that it never saw. "
        f"In drawn scenes with three regions, MaskInversion names "
        f"{regions('seen')} of them correctly ({regions('unseen')} in the unseen style). On real "
        f"test images it names {share('real/blood', 'ways', 'maskinversion')} of blood cells and "
        f"{share('real/aerial', 'ways', 'maskinversion')} of aerial regions in close windows "
        f"({wide} in automatic ones) correctly, averaged over the classes. It was not trained on "
        "photographs."
    )


def measured(name, only=None):
    """Return the tables of a `bench` command: all, or those with these numbers from 0."""
    page = kept(name)
    blocks = markdown(page).strip().split("\n\n")
    about, tables = blocks[0], blocks[1:]
    chosen = tables if only is None else [tables[number] for number in only]
    return "\n\n".join([*chosen, *_earlier(page), _small(TARGETS.sub("", about))])


def sample_captions():
    """Return the generated captions of all sample scenes as a table, and how many are right."""
    page = kept("sample-captions")
    rows = [
        [scene, str(region), truth, caption if right else f"{caption} ✗"]
        for scene, region, truth, caption, right in page["rows"]
    ]
    about = f"{page['right']} of {page['regions']} sentences name their thing; ✗ marks the others."
    shown = table(["scene", "region", "shows", "generated caption"], rows)
    return "\n\n".join([about, shown, *_earlier(page), _small(f"`{page['command']}`")])


def _small(text):
    return f"<small>{text}</small>"


def _earlier(page):
    """Return a line if a page's figures are not of the weights that come with this version."""
    ours = json.loads((bundled_folder() / REFERENCES).read_text("utf-8"))["fingerprint"]
    settings = page.get("settings", page)
    theirs = settings.get("fingerprint") or settings.get("fingerprints", {}).get("demo", ours)
    return [] if ours in str(theirs) else [EARLIER]


_MEASURED = {
    "drawings": "bench-methods",
    "blood cells": "bench-blood",
    "land": "bench-aerial",
    "nuclei": "bench-nuclei",
}


def methods_compared():
    """Return cost, figures of the bundled model and those of the paper, by method."""
    quoted = {r.method: r.values["voc", "acc1"] for r in TABLES["2"].rows if r.backbone == "B/16"}
    head = ["method", f"{TYPICAL} regions, passes", *(f"measured: {what}" for what in _MEASURED)]
    rows = []
    for spec in METHODS.values():
        parts = (kept(file)["parts"].get(f"demo: {spec.name}", {}) for file in _MEASURED.values())
        ours = [f"{100 * p['macro']['value']:.0f}" if "macro" in p else "-" for p in parts]
        paper = f"{quoted[spec.name]:.1f}" if spec.name in quoted else "-"
        unknown = "real weights, here" if spec.name in quoted else "real weights"
        cost = f"{spec.image + TYPICAL * spec.region:.0f}"
        rows.append([spec.title, cost, *ours, paper, unknown])
    return table([*head, "quoted: Pascal VOC (the paper, ViT-B/16)", "unknown"], rows)


def paper(kind, columns=()):
    """Return the paper's figures for an experiment of the same kind: all, or these columns."""
    shown = paper_tables(kind, "coco-panoptic").split("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in shown.splitlines()]
    places = [0, *map(lines[0].index, columns)] if columns else range(len(lines[0]))
    head, _, *rows_ = [[line[place] for place in places] for line in lines]
    return table(head, rows_)


def plot(name):
    """Return a plot of a `bench` command, for light and for dark pages; `plots.py` draws it."""
    page = kept(name)
    kind, model = page["kind"], page["settings"].get("model", "demo")
    pictures = (
        f"![Accuracies by bench {kind}](../images/plots/{kind}-{look}.svg#only-{look})"
        for look in LOOKS
    )
    about = _small(f"Model {model}; bands and lines are 95 % intervals.")
    return "\n\n".join(["\n".join(pictures), *_earlier(page), about])


def flags(part):
    """Return a table of `benchmarks/flags.py`: of "test", "signals", "images" or "samples"."""
    page = kept("flags")

    def whole(share):
        return "none" if share is None else f"{100 * share:.0f} %"

    if part == "signals":
        head = ["signal", "chance that a right answer has more of it than a wrong one"]
        cells = [[name, f"{value:.2f}"] for name, value in page["signals"].items()]
    elif part == "images":
        head = ["images", "number", "recognised as aerial, blood smear or nuclei"]
        cells = [
            [name, str(row["images"]), whole(row["recognised"])]
            for name, row in page["images"].items()
        ]
    elif part == "samples":
        head = ["sample scene", "region", "shows", "suggested", "flag"]
        cells = [
            [scene, str(region), truth, said, flag or "ok"]
            for scene, region, truth, said, flag in page["samples"]
            if said != truth or flag
        ] or [["-", "", "", "none is wrong or flagged", ""]]
    else:
        head = ["new regions (test split)", "right / wrong", "wrong ones flagged"]
        head += ["right ones not flagged", "right, but *does not fit*"]
        cells = [
            [
                KINDS[kind],
                f"{row['right']} / {row['wrong']}",
                *(whole(row[k]) for k in ("wrong_flagged", "right_kept", "right_not_fitting")),
            ]
            for kind, row in page["test"].items()
        ]
    about = _small(f"`{page['about']['command']}`, {page['about']['date'][:10]}")
    return "\n\n".join([table(head, cells), *_earlier(page), about])


KINDS = {
    "seen": "drawn scenes, seen styles",
    "unseen": "drawn scenes, unseen style",
    "aerial": "aerial tiles",
    "blood": "blood smears",
    "nuclei": "cell nuclei",
    "all": "all",
}


def sample_regions():
    """Return how many regions of the sample scenes are right, and how many wrong ones are "ok"."""
    samples = kept("flags")["samples"]
    wrong = [flag for _, _, truth, said, flag in samples if said != truth]
    count = len(samples)
    painted = sum("(painted)" in scene for scene, *_ in samples)
    unflagged = wrong.count("")
    if not wrong:
        return f"all {count} regions ({painted} painted) are right"
    return (
        f"{count - len(wrong)} of {count} regions ({painted} painted) are right; of the "
        f"{len(wrong)} wrong ones "
        f"{unflagged or 'none'} {'are' if unflagged > 1 else 'is'} not flagged"
    )


_WORDED = {"words": "right words", "other words": "words that say nothing"}


def learning_curves(kind):
    """Return the balanced accuracy of each way of using decisions on "aerial", ... images."""
    page = kept("learning-curves")
    lines = {}
    for words, measured in page["sets"][kind]["ways"].items():
        for way, values in measured["ways"].items():
            cells = ("" if one is None else percent(one) for one in values["balanced"])
            title = way if way.startswith("random forest") else f"{way}, {_WORDED[words]}"
            lines[title] = [title, *cells]  # A forest takes no words: one line
    head = [f"{kind}: decisions a class", *map(str, page["settings"]["decisions a class"])]
    return "\n\n".join([table(head, lines.values()), *_earlier(page), _seeds(page)])


def learning_orders():
    """Return how many decisions each order needs, with words that say nothing."""
    page = kept("learning-curves")
    sets = {kind: found["orders"]["other words"] for kind, found in page["sets"].items()}
    orders = next(iter(sets.values()))
    lines = [
        [name, *(_counted(found[name]["decisions"]) for found in sets.values())] for name in orders
    ]
    return table(["", *sets], lines) + f"\n\n{_seeds(page)}"


def learning_doubtful():
    """Return precision and recall of the search for wrong decisions."""
    page = kept("learning-curves")
    lines = [
        [f"{kind}, {_WORDED[words]}", *(percent(one) for one in found.values())]
        for kind, measured in page["sets"].items()
        for words, found in measured["doubtful"].items()
    ]
    head = ["", *next(iter(page["sets"].values()))["doubtful"]["words"]]
    return table(head, lines) + f"\n\n{_seeds(page)}"


def _counted(one):
    return f"{one['value']:.0f} ({one['low']:.0f}–{one['high']:.0f})"


def _seeds(page):
    return _small(f"Means of {page['settings']['seeds']} random splits, with 95 % intervals.")


def rows(name, columns, titles=None):
    """Return rows of a file of figures as a table.

    `columns` maps keys (dots lead inwards) to titles. `titles` renames rows and leaves out those
    that it does not name; a text takes the rows that begin so.
    """
    page = kept(name)
    entries = page["rows"]
    if isinstance(entries, list):
        entries = {str(number): row for number, row in enumerate(entries)}
    if titles is None or isinstance(titles, str):
        start = titles or ""
        titles = {key: key.removeprefix(start) for key in entries if key.startswith(start)}
    chosen = [entries[key] for key in titles]
    lines = [
        [title, *(_cell(row, column) for column in columns)]
        for title, row in zip(titles.values(), chosen, strict=True)
    ]
    commands = dict.fromkeys(row.get("command", page.get("command")) for row in chosen)
    shown = ", ".join(f"`{TARGETS.sub('', command)}`" for command in commands if command)
    return table(["", *columns.values()], lines) + f"\n\n{_small(shown)}"


def found():
    """Return how much of what is on images without regions `find` and crops of a grid find."""
    sets = {
        "drawn scenes": "scenes",
        "nuclei": "nuclei",
        "blood": "blood",
        "aerial": "aerial",
        "photographs": "coco",
    }
    parts = [kept("find")[part]["sets"] for part in ("find", "grid")]
    body = [
        [title, *(f"{100 * part[name][one]:.0f} %" for part in parts for one in _FOUND)]
        for title, name in sets.items()
    ]
    return table(["", "precision", "recall", "precision of a grid of crops", "its recall"], body)


def launches():
    """Return what a GPU has to start with CUDA graphs, and without."""
    rows = kept("count")["rows"]
    encoding, steps = (
        rows[f"launches:{work} at 448 px:float32"] for work in ("encoding", "5 masks")
    )
    return (
        f"Encoding launches {encoding['repeating']} kernels instead of {encoding['launches']}, "
        f"ten steps of 5 masks {steps['repeating']} instead of {steps['launches']:,}."
    )


def gpu_times():
    """Return milliseconds by masks and precision on an H100, and those of a CPU."""
    parts, cpu = kept("gpu-h100")["parts"], kept("compare_reference")["rows"]
    runs = {5: "exact:5x448", 100: "exact-500mb:100x448"}
    names = ("float32", "tf32", "bfloat16", "float16", "published code")
    lines = []
    for masks in dict.fromkeys(row["masks"] for row in parts.values() if "masks" in row):
        rows_ = [parts.get(f"whole/{masks}/{name}", {}) for name in names]
        times = [row.get("ms") for row in rows_] + [rows_[0]["ms_again"]]
        times.append(1000 * cpu[runs[masks]]["seconds"] if masks in runs else None)
        lines.append([str(masks), *("" if one is None else f"{one:,.0f}" for one in times)])
    head = ["masks", *names, "float32 again", "two CPU cores, float32"]
    return table(head, lines) + "\n\n" + _small("NVIDIA H100, PyTorch 2.11.")


def cpu_times():
    """Return calls on a CPU beside the published code."""
    ours = kept("compare_reference")["rows"]
    lines = []
    for case in ("5x448", "50x224"):
        for mode in ("exact", "fast"):
            count, side = case.split("x")
            row, published = ours[f"{mode}:{case}"], ours[f"published:{case}"]
            what = f"{mode}, {count} masks, {side} px"
            times = [f"{one['seconds']:.3g}" for one in (row, published)]
            lines.append([what, *times, str(row["beyond_model_mb"])])
    head = ["", "seconds", "published code, s", "memory beyond the model, MB"]
    return table(head, lines)


def gpu_models():
    """Return milliseconds of larger models on an H200."""
    parts = kept("gpu-h200")["parts"]
    names = ("float32", "tf32", "bfloat16")
    lines = [
        [model, *(f"{parts[f'whole/{model}/100/{name}']['ms']:,.0f}" for name in names)]
        for model in ("ViT-L-14", "ViT-H-14")
    ]
    return table(["ms", *names], lines)


def window_sides(least="5 tokens"):
    """Return by kind of image what windows at the model's own resolution change."""
    page, lines = kept("window-sides"), []
    for kind in [kind for kind in page if kind != "about"]:
        usual, ours = page[kind]["twice the side"], page[kind][least]
        cells = [str(usual["regions"]), f"{100 * ours['coarse']:.0f} %"]
        for name, scale in (("right", 100), ("overlap", 1)):
            low, high = (scale * ours["difference"][name][end] for end in ("low", "high"))
            digits = 1 if scale == 100 else 2
            both = f"{scale * usual[name]:.{digits}f}, {scale * ours[name]:.{digits}f}"
            cells.append(f"{both} ({low:+.{digits}f} to {high:+.{digits}f})")
        lines.append([kind, *cells, f"{usual['ms']:.0f}, {ours['ms']:.0f}"])
    head = ["", "regions", "at its own resolution", "right, %", "overlap", "ms a region"]
    return table(head, lines) + "\n\n" + _small("Before, after; 95 % interval of the difference.")


def _cell(row, column):
    for key in column.split("."):
        row = row.get(key, "") if isinstance(row, dict) else ""
    if isinstance(row, list):
        return ", ".join(map(str, row))
    return f"{row:.{3 if row >= 1 else 5}g}" if isinstance(row, float) else str(row)


ENGINE, ONE = "engine", "one process"
MILLION, HOUR = 1_000_000, 3600


def _batch():
    return kept("batch")["rows"]


def batch_note():
    """Return what the measurements of `benchmarks/batch.py` were made on."""
    rows_of = _batch().values()
    (cores,) = {row["cores"] for row in rows_of}
    processors = " or ".join(sorted({row["processor"] for row in rows_of}))
    busy = max(row["load_before"] for row in rows_of) > cores
    also = ", with much other work on the same machine" if busy else ""
    return f" by `python benchmarks/batch.py` on {cores} cores of an {processors}{also}"


def batch_rates():
    """Return the rates of `benchmarks/batch.py` as a table."""
    rows_of = _batch()
    lines = [
        [
            "the engine alone, no files" if name == ENGINE else name,
            str(row["images"]),
            f"{row['images_per_s']:.2f}",
            f"{100 * _of_the_engine(row):.0f} %",
        ]
        for name, row in rows_of.items()
        if not row.get("kills")
    ]
    head = ["50 regions per image", "images", "images per second", "of the engine alone"]
    return table(head, lines)


def _of_the_engine(row):
    """Return the share of the engine's rate: of that beside the run where it was measured."""
    return row.get("of_the_engine") or row["images_per_s"] / _batch()[ENGINE]["images_per_s"]


def batch_kills():
    """Return what kills did in `benchmarks/batch.py`, as a list."""
    lines = []
    for name, row in _batch().items():
        if not row.get("kills"):
            continue
        same = row.get("against_undisturbed") or row["against_one_process"]
        schedulers = row.get("scheduler_restarts", 0)
        also = f" and {schedulers} of the scheduler" if schedulers else ""
        lines.append(
            f"- {name}, every {row['kill_every_s']:.0f} s: {row['kills']} kills of workers{also}; "
            f"of {row['images']} images {same['lost']} lost, {same['rows_twice']} rows twice, "
            f"{same['different']} different from the undisturbed run"
        )
    return "\n".join(lines)


def batch_costs():
    """Return hours for a million regions, from the processor time of one process."""
    one = _batch()[ONE]
    images = MILLION / one["regions"]
    core_hours = images * one["cpu_s_per_image"] / HOUR
    lines = [
        [str(machines), str(cores), f"{core_hours / machines / cores:.2f}"]
        for machines, cores in ((1, 1), (1, 16), (4, 16), (16, 16))
    ]
    gigabytes = images * one["kilobytes_per_image"] / 1e6
    text = f"The results take {gigabytes:.0f} GB."
    return table(["machines", "cores each", "hours"], lines) + f"\n\n{text}"
