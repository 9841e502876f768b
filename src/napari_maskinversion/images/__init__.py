"""Images and masks from files, and the sample scenes."""
