"""Methods to embed a region; `registry` lists them and needs no torch."""
