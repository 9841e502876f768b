"""The tables and curves of the paper (arXiv:2407.20034), run again."""

TABLES = (*map(str, range(1, 7)), "alpha", "steps", "maps", "resolution", "grid")
