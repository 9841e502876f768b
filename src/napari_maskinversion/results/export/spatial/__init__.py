"""Results for maps and spatial omics: GeoPackage, OME-Zarr, AnnData, SpatialData."""
