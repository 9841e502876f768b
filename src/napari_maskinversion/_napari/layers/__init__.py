"""napari layers: coordinates, rasterising, heatmap, outlines and label colours."""
