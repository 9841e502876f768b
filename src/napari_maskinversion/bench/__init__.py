"""Measuring models and ways to embed a region, on images whose regions are known."""
