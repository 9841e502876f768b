"""Pictures generated from region embeddings. Imports diffusers only to load a decoder."""
