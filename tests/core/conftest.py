"""Fixtures for tests of models."""

import pytest

from .hub import Hub


@pytest.fixture
def hub(monkeypatch):
    """A model hub on this machine; the client is pointed at it."""
    stand_in = Hub()
    monkeypatch.setenv("HF_ENDPOINT", stand_in.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    # The client reads the variable once, when it is imported.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield stand_in
    stand_in.close()


@pytest.fixture
def no_network(monkeypatch):
    """Every attempt to open a connection fails the test."""
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError(f"a connection was opened: {args[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
