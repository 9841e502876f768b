"""Write the bundled model's scores into its card, from benchmarks/results/scenes.json.

Usage: .venv/bin/python scripts/card_scores.py
"""

import json

from docs_site.figures import ROOT, TARGETS, markdown

from benchmarks.drawn.reports import write_into

CARD = ROOT / "src/napari_maskinversion/demo_model/weights/MODEL_CARD.md"


def main(card=CARD):
    """Fill the marks of a card."""
    page = json.loads((ROOT / "benchmarks/results/scenes.json").read_text("utf-8"))
    # What of the command says where its figures went, measured nothing.
    write_into(card, page["kind"], TARGETS.sub("", markdown(page)))


if __name__ == "__main__":
    main()
