"""napari layers of ours: heatmaps, outlines and label colours."""
