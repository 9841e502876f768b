"""Regions with crops and embeddings, and searches among them."""
