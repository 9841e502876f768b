"""Figures as tables and plots."""

from .plots import plot
from .report_tables import markdown

__all__ = ["markdown", "plot"]
