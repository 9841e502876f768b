"""Kill work on files again and again: ``python benchmarks/kills.py [--only batch library]``.

Each work of ``tests/kill`` that changes what users keep is killed (kill -9) 20 times, half of the
times before an operation on files, half at any time; its test then says whether all is there.
Writes benchmarks/results/kills.json: how often each work was killed, how often it had ended before
that, and how often nothing was lost.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import measuring
import pytest

WORKS: Final = {
    "review": "test_small_files.py::test_no_decision_is_lost",
    "export": "test_files.py::test_results_are_the_old_or_the_new_ones",
    "batch": "test_batch.py::test_a_batch_is_finished_by_the_next_start",
    "library": "test_library.py::test_no_region_is_lost",
    "project index": "test_project_index.py::test_an_index_that_was_half_built_is_finished",
    "decisions in a project": "test_project_index.py::"
    "test_no_decision_is_lost_and_the_next_refresh_mends_the_index",
}
ROOT: Final = Path(__file__).parents[1]


class Outcomes:
    """Hears how tests end."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the end of a test."""
        if report.when != "call" and not report.failed:
            return
        self.counts["nothing lost" if report.passed else "failed"] += 1
        for name, value in report.user_properties:
            if name == "killed":
                self.counts["killed" if value else "ended before"] += 1


def killed(test: str) -> dict[str, int]:
    """Kill a work, and return what became of it."""
    outcomes = Outcomes()
    place = str(ROOT / "tests" / "kill" / test)
    pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", place], plugins=[outcomes])
    names = ("killed", "ended before", "nothing lost", "failed")
    return {name: outcomes.counts[name] for name in names}


def main() -> None:
    """Kill all works, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--out", type=Path, default=measuring.RESULTS / "kills.json")
    arguments = parser.parse_args()
    os.environ["NAPARI_MASKINVERSION_FUZZ"] = "2"  # 20 kills, see tests/kill
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    about = {**measuring.about(), "command": "python benchmarks/kills.py"}
    kills = measuring.read(arguments.out).get("kills", {})
    for work in arguments.only:
        kills[work] = killed(WORKS[work])
        print(work, kills[work])
        measuring.write(arguments.out, {**about, "kills": kills})


if __name__ == "__main__":
    main()
