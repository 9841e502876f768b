"""Every attack has a limit of time of its own."""

from pathlib import Path

import pytest

from . import ROUNDS, attack
from .conftest import LIMIT


def test_a_case_that_hangs_fails_under_its_name(request):
    cases = [item for item in request.session.items if Path(__file__).parent in item.path.parents]
    limits = {item.nodeid: item.get_closest_marker("timeout") for item in cases}
    assert [name for name, limit in limits.items() if not limit] == []
    assert max(limit.args[0] for limit in limits.values()) <= LIMIT * ROUNDS


def test_a_command_without_end_fails(tmp_path, monkeypatch):
    def endless(*_):
        while True:
            pass

    monkeypatch.setattr(attack, "MOST_TIME", 0.1)
    with pytest.raises(pytest.fail.Exception, match="takes more than"):
        attack.attack(endless, tmp_path, "run")
