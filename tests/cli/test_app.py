"""Whatever happens, a command ends in one line."""

import pytest

from napari_maskinversion.cli import methods


@pytest.fixture
def broken(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(methods, "print_table", fail)


def test_an_error_of_ours_is_one_line(call, broken):
    code, _, err = call("methods")
    assert code == 1
    assert err.count("\n") == 1
    assert "Internal error (ZeroDivisionError: division by zero); please report it" in err
    assert "--debug" in err


@pytest.mark.parametrize("arguments", [("--debug", "methods"), ("methods", "--debug")])
def test_debug_shows_where_it_happened(call, broken, arguments):
    with pytest.raises(ZeroDivisionError):
        call(*arguments)
