"""Run tests, and the few that fail once more, each alone: on a loaded machine a time limit may have been too short.

`python -m tests.second_attempt ARGUMENTS`, those of pytest. It fails if a test fails twice, if more than a few fail,
and if anything else goes wrong: a file that cannot be collected or a worker that crashed may hide other failures.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

MOST_REPEATED = 6
"""More than these fail for a reason of their own."""


class Failures:
    """A plugin of pytest that notes what failed."""

    def __init__(self) -> None:
        self.tests: dict[str, None] = {}
        self.others: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tests[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.others.append(f"{report.nodeid}: cannot be collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        if error:
            self.others.append(f"a worker crashed: {error}")


def second_attempt(first: int, failures: Failures, passes: Callable[[str], bool]) -> int:
    """The exit code of both attempts. `first`: that of the first; `passes`: runs one test alone."""
    if failures.others:
        _say("No second attempt, because tests may not have run", failures.others)
        return first or int(pytest.ExitCode.INTERNAL_ERROR)
    if first != pytest.ExitCode.TESTS_FAILED:
        return first
    if len(failures.tests) > MOST_REPEATED:
        _say(f"No second attempt, because more than {MOST_REPEATED} tests failed", failures.tests)
        return first
    _say("Second attempt, each test alone", failures.tests)
    passed = {test: passes(test) for test in failures.tests}
    _say("PASSED ONLY AT THE SECOND ATTEMPT", (test for test in passed if passed[test]))
    _say("FAILED TWICE", (test for test in passed if not passed[test]))
    return int(pytest.ExitCode.OK) if all(passed.values()) else first


def _say(what: str, names: Iterable[str]) -> None:
    if listed := list(names):
        print("\n  ".join([f"\n{what}:", *listed]), flush=True)


def _passes_alone(test: str) -> bool:
    command = [sys.executable, "-P", "-m", "pytest", test]
    return subprocess.run(command, check=False).returncode == pytest.ExitCode.OK


def main() -> int:
    failures = Failures()
    first = pytest.main(sys.argv[1:], plugins=[failures])
    return second_attempt(int(first), failures, _passes_alone)


if __name__ == "__main__":
    sys.exit(main())
