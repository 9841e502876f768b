"""Embedded regions of many images in one folder, searched by words and by examples."""
