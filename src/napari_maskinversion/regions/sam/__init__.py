"""Segment Anything (SAM): boxes and points to regions."""
