"""What a user does, without windows; the command line and the panel share it."""
