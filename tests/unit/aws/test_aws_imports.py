"""boto3 takes tens of megabytes: a master imports it when it talks to AWS, not before."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_master_and_the_provider_do_not_import_boto3() -> None:
    program = (
        "import sys, master.app, master.cli, provisioner.providers.aws.provider\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('boto3', 'botocore')])"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"
