"""Tasks of a worker thread, and the model that workers share."""
