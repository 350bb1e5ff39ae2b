"""Tests that fail get a second attempt: a few of them, and none where it may hide others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_attempt import Failures, second_attempt

PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
FAILS_ONCE = """
from pathlib import Path
def test_fails_once():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        assert False
"""
TEARDOWN_FAILS_ONCE = """
from pathlib import Path
import pytest
@pytest.fixture
def shared():
    yield
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        assert False
def test_with_it(shared): pass
"""
CRASHES = "import os\ndef test_crashes(): os._exit(1)\n"
CANNOT_BE_COLLECTED = "import nothing_of_this_name\n"


def attempts(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """Exit code and output for these files of tests."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-P", "-m", "tests.second_attempt", *arguments]
    # A run closes its folder of all runs for other users, whom the tests beside this one let through theirs. And none
    # of our plugins: their import takes longer than everything else here.
    own = {"PYTEST_DEBUG_TEMPROOT": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | own, check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout


def failures(*tests: str) -> Failures:
    found = Failures()
    found.tests.update(dict.fromkeys(tests))
    return found


@pytest.mark.slow
def test_those_that_fail_once_are_named_and_one_that_fails_twice_fails_all(tmp_path: Path) -> None:
    files = {"passes": PASSES, "once": FAILS_ONCE, "teardown": TEARDOWN_FAILS_ONCE, "twice": FAILS}
    code, output = attempts(tmp_path, **files)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert output.endswith(
        "\nPASSED ONLY AT THE SECOND ATTEMPT:"
        "\n  test_once.py::test_fails_once\n  test_teardown.py::test_with_it\n"
        "\nFAILED TWICE:\n  test_twice.py::test_fails\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (CRASHES, "a worker crashed: Not properly terminated"),
        (CANNOT_BE_COLLECTED, "test_other.py: cannot be collected"),
    ],
    ids=["crash", "collection"],
)
def test_nothing_is_repeated_where_tests_may_not_have_run(
    tmp_path: Path, other: str, why: str
) -> None:
    workers = ("-p", "xdist", "-n", "1", "--max-worker-restart", "0")
    code, output = attempts(tmp_path, *workers, once=FAILS_ONCE, other=other)
    assert code != 0
    assert f"\nNo second attempt, because tests may not have run:\n  {why}\n" in output
    assert "SECOND ATTEMPT" not in output


def test_a_crash_fails_though_no_test_did() -> None:
    crashed = failures()
    crashed.others.append("a worker crashed")
    assert second_attempt(0, crashed, lambda _: True) != 0


def test_more_than_a_few_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert second_attempt(1, failures(*"abcdef"), lambda _: True) == 0
    assert "PASSED ONLY AT THE SECOND ATTEMPT:\n  a\n  b\n" in capsys.readouterr().out
    assert second_attempt(1, failures(*"abcdefg"), lambda _: True) == 1
    assert "because more than 6 tests failed:\n  a\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "code", [code for code in pytest.ExitCode if code != pytest.ExitCode.TESTS_FAILED]
)
def test_another_end_is_that_of_pytest(
    code: pytest.ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert second_attempt(code, failures("a"), lambda _: True) == code
    assert capsys.readouterr().out == ""
