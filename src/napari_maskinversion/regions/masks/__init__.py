"""Label images to regions, and clean-up of masks."""
