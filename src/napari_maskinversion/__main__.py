"""Run the command line: ``python -m napari_maskinversion``."""

from .cli import main

main()
