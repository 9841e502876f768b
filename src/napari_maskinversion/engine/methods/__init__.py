"""Methods to embed a region, one file each; `registry` lists them and needs no torch."""
