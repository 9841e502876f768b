"""Hook of mkdocs: draw the plots of pages from kept figures, into images/plots."""

import json
import sys
import tempfile
from pathlib import Path

from mkdocs.structure.files import File

sys.path.append(str(Path(__file__).parents[2]))  # the folder benchmarks/ is not installed
from benchmarks.drawn.reports import plot

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = ("alpha", "steps", "bench-aerial", "bench-blood", "bench-coco-panoptic", "bench-methods")


def on_files(files, config):
    """Add the plots to the files of the site."""
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            page = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
            for drawn in plot(page, Path(folder)):
                text = drawn.read_text("utf-8")
                files.append(File.generated(config, f"images/plots/{drawn.name}", content=text))
    return files
