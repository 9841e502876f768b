"""The commands that generate from a region's embedding."""
