"""Images from files as stacks, planes and windows, and the sample scenes."""
