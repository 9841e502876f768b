"""Devices, matrix products and the lock that serialises heavy work."""
