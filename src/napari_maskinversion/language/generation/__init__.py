"""Sentences generated from embeddings: decoders, and how they choose words."""
