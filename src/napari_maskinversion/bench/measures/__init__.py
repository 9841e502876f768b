"""Measurements and their figures."""
