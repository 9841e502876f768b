"""Image towers, one file per family."""
