"""A master may have a connection for every live task."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

RAISED = """
import resource
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
from master.serve import raise_file_limit
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.slow
def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", RAISED], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
