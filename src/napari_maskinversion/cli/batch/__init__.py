"""The commands for many images."""
