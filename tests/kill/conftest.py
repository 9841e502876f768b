"""Only systems that can divide a process."""

import os
import random

import pytest

from . import KILLS

collect_ignore_glob = [] if hasattr(os, "fork") else ["test_*.py"]


@pytest.fixture
def killed(forks, record_property):
    """Do work and kill it: half of the times before an operation on files, half at any time.

    Whether it had ended before is a property of the test: ``benchmarks/kills.py`` counts it.
    """

    def kill(work, *arguments, folder, number, whole, **options):
        chance = random.Random(f"{work} {arguments[:1]} {number}")
        if number % 2 and whole["operations"]:
            options["kill"] = chance.randrange(whole["operations"])
        else:
            options["after"] = chance.uniform(0, whole["seconds"])
        outcome = forks.run(work, *arguments, folder=folder, **options)
        assert outcome["code"] in (0, -9), outcome["said"]
        record_property("killed", outcome["code"] == -9)
        return outcome

    return kill


@pytest.fixture(params=range(KILLS))
def number(request):
    """The number of a kill."""
    return request.param
