"""Google's client takes seconds and 150 MB: a master imports it when it talks to Google, not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, master.app, master.cli, provisioner.providers.gcp.provider
from pathlib import Path
from master.config.load import load
load(Path(sys.argv[1]))
print([name for name in sys.modules if name == "google" or name.startswith("google.")])
"""


@pytest.mark.slow
def test_a_master_imports_nothing_of_google_until_it_asks(tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text("resource_pools: [{pool_name: g, provider: {type: gcp, zone: us-east1-b}}]")
    said = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "[]"
