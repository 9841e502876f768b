"""Results of a run: their table and their export."""
