"""Ways to embed a region, one file each; `table` names them and needs no torch."""
