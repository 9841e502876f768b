"""CLIP models: the registry, loading, weights and tokenizers."""
