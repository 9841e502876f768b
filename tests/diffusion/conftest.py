"""Tiny decoders, written once a session; tests that change one copy it."""

import shutil

import pytest

from tests import tiny_decoders


@pytest.fixture(scope="session")
def kandinsky_folder(tmp_path_factory):
    return tiny_decoders.kandinsky(tmp_path_factory.mktemp("kandinsky"))


@pytest.fixture(scope="session")
def unclip_folder(tmp_path_factory):
    return tiny_decoders.unclip(tmp_path_factory.mktemp("unclip"))


@pytest.fixture
def broken(tmp_path, kandinsky_folder):
    """A copy of the decoder to break."""
    return shutil.copytree(kandinsky_folder, tmp_path / "decoder")
