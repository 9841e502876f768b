"""Caption banks."""
