"""Write the bundled model's figures into README.md, from benchmarks/results/scenes.json.

Usage: .venv/bin/python scripts/readme_figures.py
"""

import re
import textwrap
from pathlib import Path

from docs_site.figures import demo_figures

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(
    r"( *<!-- figures of the demo model -->\n).*?( *<!-- end of the figures -->\n)", re.S
)


def with_figures(text):
    """Return README's text with the figures as they are now."""
    figures = textwrap.fill(demo_figures(), 130, initial_indent="  ", subsequent_indent="  ")
    return BLOCK.sub(lambda marks: f"{marks[1]}{figures}\n{marks[2]}", text)


if __name__ == "__main__":
    README.write_text(with_figures(README.read_text("utf-8")), encoding="utf-8")
