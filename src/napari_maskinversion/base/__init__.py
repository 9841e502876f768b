"""Errors, files, preferences, downloads, units and region geometry: nothing specific to CLIP."""
