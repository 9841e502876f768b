"""What this installation consists of, and what is wrong with it: ``napari-maskinversion doctor``.

Works where Qt, napari or torch are missing or broken: they are imported in a process of their own.
"""
