"""Attacks on the command line: damaged files, foreign content, absurd options.

The corpus is made by generators. `ROUNDS` multiplies it; ``scripts/fuzz.sh`` sets it.
"""

import os

ROUNDS = int(os.environ.get("NAPARI_MASKINVERSION_FUZZ", "1"))
