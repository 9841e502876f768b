"""Text embeddings and their cache."""
