"""What the manifest names: commands, readers, writers and sample data."""
