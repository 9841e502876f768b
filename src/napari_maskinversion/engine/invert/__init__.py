"""The inversion: one embedding per mask, optimised until its map matches the mask."""
