"""Runs and live mode: from the panel's settings to results."""
