"""The table of results, its export, and saved results opened again."""
