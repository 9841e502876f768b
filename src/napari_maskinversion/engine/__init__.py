"""The method: MaskInversion on a frozen CLIP. No Qt, no napari, no image or result files."""
