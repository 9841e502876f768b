"""The trade-off of sampled queries as a picture: docs/images/sampling.svg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "docs" / "images" / "sampling.svg"
# Readable on white and on black pages alike.
INK = "#808080"
COLOURS = ("#1f8fd1", "#e0702c", "#2ca05a", "#a05ac8")


def draw(rows: list[dict[str, Any]], out: Path = OUT) -> None:
    """Draw 1 - cosine (mean, first percentile, worst) and time against the stride, by model."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    style: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    )
    # Without the salt every drawing would be another file.
    with mpl.rc_context({**style, "svg.hashsalt": "sampling", "svg.fonttype": "none"}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        places = list(dict.fromkeys(str(row["stride"]) for row in rows))
        for number, model in enumerate(dict.fromkeys(row["model"] for row in rows)):
            some = [row for row in rows if row["model"] == model]
            x = [places.index(str(row["stride"])) for row in some]
            colour = COLOURS[number % len(COLOURS)]
            for key, line, marker in (("mean", "-", "o"), ("1 %", "--", "s"), ("min", ":", "v")):
                y = [max(1 - row[f"cos {key}"], 1e-5) for row in some]
                named = model if key == "mean" else None
                left.plot(x, y, line, marker=marker, color=colour, label=named)
            right.plot(x, [row["time"] for row in some], "-o", color=colour, label=model)
        left.axhline(0.02, color=INK, linewidth=0.8)
        left.annotate("promised for the worst", (0, 0.02), (0, 3), textcoords="offset points")
        left.set(yscale="log", ylabel="1 - cosine to the exact embedding")
        left.set_title("solid: mean, dashed: 1st percentile, dotted: worst", fontsize=9)
        right.set(ylabel="time, exact = 1", ylim=(0, None))
        for axes in (left, right):
            axes.set_xticks(range(len(places)), places)
            axes.set_xlabel('query_stride ("forced": auto, also for small models)')
            axes.legend(frameon=False, fontsize=8)
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, transparent=True, metadata={"Date": None})
        plt.close(figure)
