"""The bundled demo model: its weights and how they were trained."""

from __future__ import annotations

from pathlib import Path
from typing import Final

WEIGHTS_FOLDER: Final = Path(__file__).parent / "weights"
