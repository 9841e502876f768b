"""What belongs to the paper and is not installed: ``bench tune``."""
