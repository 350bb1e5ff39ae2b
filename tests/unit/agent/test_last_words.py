"""Which line of a task's standard error is told as the cause of its failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.supervisor.last_words import MAX_CAUSE, cause

TRACE = (
    'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    import torch\n'
)


MISSING = "python3: can't open file '/run/x/train.py': [Errno 2] No such file or directory"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            TRACE + "ModuleNotFoundError: No module named 'torch'\n",
            "ModuleNotFoundError: No module named 'torch'",
        ),
        (TRACE + "KeyboardInterrupt", "KeyboardInterrupt"),
        (TRACE + "site.packages.Trouble: 7\nbye\n", "site.packages.Trouble: 7"),
        (
            TRACE
            + "ValueError: first\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACE
            + "KeyError: 'second'\n",
            "KeyError: 'second'",
        ),
        (
            '  File "x.py", line 1\n    a b\n      ^\nSyntaxError: invalid syntax\n',
            "SyntaxError: invalid syntax",
        ),
        (
            TRACE.replace("Traceback", "[rank=1] Traceback") + "[rank=1] ValueError: bad\n",
            "ValueError: bad",
        ),
        (
            TRACE
            + "ValueError: bad\n"
            + TRACE
            + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\n",
            "ValueError: bad",
        ),
        (
            TRACE + "subprocess.CalledProcessError: Command x returned 1\n",
            "subprocess.CalledProcessError: Command x returned 1",
        ),
        (MISSING + "\n", MISSING),
        ("/usr/bin/python3: No module named trian\n", "/usr/bin/python3: No module named trian"),
        ("sh: 1: trian: not found\n", "sh: 1: trian: not found"),
        ("trian: No such file or directory\n", "trian: No such file or directory"),
        (
            "sh: 1: nvidia-smi: not found\nwindlass launch: JupyterLab is not installed for python3: use another\n",
            "JupyterLab is not installed for python3: use another",
        ),
        (
            "sh: 1: trian: not found\nwindlass launch: startup hook a.sh ended with exit code 127\n",
            "sh: 1: trian: not found",
        ),
        ("windlass launch: not fetched, tried again every 20 s: x\nbye\n", ""),
        ("WARNING: something\nINFO: all is well\nloss: 3\n", ""),
        ("", ""),
    ],
)
def test_the_cause_is_the_last_exception_or_what_is_missing(said: str, found: str) -> None:
    assert cause(said.encode()) == found


@given(st.binary(max_size=2000))
def test_any_output_has_a_bounded_cause_that_it_said_itself(tail: bytes) -> None:
    found = cause(tail)
    assert len(found) <= MAX_CAUSE
    assert "\n" not in found
    assert found in tail.decode(errors="replace")
