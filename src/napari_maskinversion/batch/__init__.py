"""Many images: the project that lists them, and the batch that runs them one by one."""
