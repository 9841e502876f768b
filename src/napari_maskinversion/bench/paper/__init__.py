"""The experiments of the paper (arXiv:2407.20034): its tables, run again."""
