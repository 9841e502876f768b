"""Images and regions to results. The panel, the command line and the benchmarks drive this."""
