"""The napari plugin: the only part of the package that imports napari and Qt."""
