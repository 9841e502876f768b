"""Regions of an image: masks, annotation files, Segment Anything."""
