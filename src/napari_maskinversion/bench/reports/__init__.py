"""Figures as tables and plots."""

from .plots import plot
from .tables import markdown

__all__ = ["markdown", "plot"]
