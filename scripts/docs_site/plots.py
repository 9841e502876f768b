"""Hook of mkdocs: draw the plots of pages from kept figures, into images/plots."""

import json
import sys
import tempfile
from pathlib import Path

from mkdocs.structure.files import File

from napari_maskinversion.bench.reports.plots import in_both_looks, new_figure

sys.path.append(str(Path(__file__).parents[2]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.reports import plot

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = ("alpha", "steps", "bench-aerial", "bench-blood", "bench-coco-panoptic", "bench-methods")
LEARNING = "learning-curves"
# Ways of `benchmarks/learning_curves.py`: colour of the look, and line
WAYS = {
    "words alone": ("ink", ":"),
    "exemplars": (0, "--"),
    "random forest on embeddings": (1, "--"),
    "random forest on properties": ("ink", "--"),
    "classifier": (0, "-"),
    "classifier with properties": (1, "-"),
}


def on_files(files, config):
    """Add the plots to the files of the site."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (*NAMES, LEARNING):
            page = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
            made = learning(page, Path(folder)) if name == LEARNING else plot(page, Path(folder))
            for drawn in made:
                text = drawn.read_text("utf-8")
                files.append(File.generated(config, f"images/plots/{drawn.name}", content=text))
    return files


def learning(page, folder):
    """Draw balanced accuracy over decisions a class, for each set and both kinds of words."""

    def draw(look):
        counts, sets = page["settings"]["decisions a class"], page["sets"]
        figure = new_figure(7.5, 4.6)
        frames = figure.subplots(2, len(sets), sharex=True, sharey=True)
        for column, (kind, found) in enumerate(sets.items()):
            for frame, (words, measured) in zip(
                frames[:, column], found["ways"].items(), strict=True
            ):
                said = {"words": "right words", "other words": "words that say nothing"}[words]
                frame.set_title(f"{kind}, {said}", color=look["ink"], fontsize=9)
                frame.grid(alpha=0.4)
                for name, (colour, line) in WAYS.items():
                    ink = look["ink"] if colour == "ink" else look["lines"][colour]
                    values = [
                        float("nan") if one is None else one["value"]
                        for one in measured["ways"][name]["balanced"]
                    ]
                    frame.plot(range(len(counts)), values, line, color=ink, label=name, lw=1.3)
                frame.set_xticks(range(len(counts)), map(str, counts))
        frames[1, 1].set_xlabel("decisions a class")
        frames[1, 0].set_ylabel("balanced accuracy")
        figure.legend(
            *frames[0, 0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            frameon=False,
        )
        return figure

    return in_both_looks(LEARNING, folder, draw)
