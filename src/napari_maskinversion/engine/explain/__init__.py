"""Explainability maps, one file each."""
