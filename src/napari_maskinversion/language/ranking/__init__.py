"""Ranking of labels and regions by similarity, and the uncertainty of the result."""
