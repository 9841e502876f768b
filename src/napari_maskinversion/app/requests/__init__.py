"""From session and layers to the work of a run."""
