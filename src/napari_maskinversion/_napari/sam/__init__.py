"""Segment Anything: boxes and points to regions."""
