"""Words for regions: vocabularies, prompt templates, text embeddings, ranking."""
