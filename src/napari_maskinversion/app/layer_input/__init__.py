"""Layers of a viewer as the input of a run; they are read by their public attributes."""
