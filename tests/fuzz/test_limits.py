"""Every attack has a limit of time of its own."""

from pathlib import Path

from . import ROUNDS
from .conftest import LIMIT


def test_a_case_that_hangs_fails_under_its_name(request):
    cases = [item for item in request.session.items if Path(__file__).parent in item.path.parents]
    limits = {item.nodeid: item.get_closest_marker("timeout") for item in cases}
    assert [name for name, limit in limits.items() if not limit] == []
    assert max(limit.args[0] for limit in limits.values()) <= LIMIT * ROUNDS
