"""kill -9 at any moment: nothing is lost, old and new are never mixed, leftovers are cleared.

`KILLS` is the number of kills of each kind of work; ``scripts/fuzz.sh`` raises it.
"""

import os

KILLS = 20 if int(os.environ.get("NAPARI_MASKINVERSION_FUZZ", "1")) > 1 else 3
