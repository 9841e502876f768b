"""Read and write regions with labels in the formats of other programs, one module per format.

Knows regions, labels and values, but no models or results.
"""
