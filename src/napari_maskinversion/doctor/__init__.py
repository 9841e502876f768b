"""What this installation consists of, and what is wrong with it: ``napari-maskinversion doctor``.

Works where Qt, napari or torch are missing or broken: whatever may fail or crash is imported in a
process of its own.
"""
