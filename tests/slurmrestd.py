"""slurmrestd beside the tests' own Slurm: on 127.0.0.1, on a Unix socket, and as a program for single requests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm import PATH, START_LIMIT_S, Slurm

PLUGINS = "openapi/v0.0.38"
OF_ACCOUNTING = "openapi/dbv0.0.38"
"""Keeps it from starting where there is none."""
NOT_AS_ROOT = "SLURMRESTD_SECURITY=disable_user_check"
"""It refuses to run as root and as SlurmUser; of a test's own Slurm they are everybody."""


def require_slurmrestd() -> None:
    if shutil.which("slurmrestd", path=PATH) is None or not _jwt_plugin():
        pytest.skip("not installed: slurmrestd slurm-wlm-jwt-plugin (as root: make .make/slurm)")


def _jwt_plugin() -> bool:
    return any(Path("/usr/lib").glob("*/slurm*/auth_jwt.so"))


@dataclass(frozen=True)
class Slurmrestd:
    slurm: Slurm
    port: int
    socket: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token_file(self, path: Path, *, seconds: int = 600) -> Path:
        """A token of the user of these tests."""
        path.touch(mode=0o600)
        path.write_text(self.slurm.run("scontrol", "token", f"lifespan={seconds}"))
        return path


@contextmanager
def running_slurmrestd(slurm: Slurm) -> Iterator[Slurmrestd]:
    """`slurm` has `jwt`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    path = slurm.folder / "run" / "rest.s"
    environment = {**os.environ, **slurm.environment, "SLURM_JWT": "daemon"}
    plugins = f"{PLUGINS},{OF_ACCOUNTING}" if slurm.has_accounting else PLUGINS
    words = ["env", NOT_AS_ROOT, "slurmrestd", "-s", plugins, "-a", "rest_auth/jwt"]
    with (slurm.folder / "log" / "slurmrestd.log").open("ab") as log:
        process = subprocess.Popen(
            [*words, f"127.0.0.1:{port}", f"unix:{path}"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _until_it_answers(process, port, path)
        yield Slurmrestd(slurm, port, path)
    finally:
        process.terminate()
        process.wait(START_LIMIT_S)


def inetd_program(slurm: Slurm) -> Path:
    """slurmrestd, for this user."""
    path = slurm.folder / "slurmrestd"
    path.write_text(f'#!/bin/sh\nexec env {NOT_AS_ROOT} slurmrestd "$@"\n')
    path.chmod(0o755)
    return path


def _until_it_answers(process: subprocess.Popen[bytes], port: int, path: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        assert process.poll() is None, "slurmrestd ended"
        with socket.socket() as probe:
            if path.exists() and probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "slurmrestd does not listen"
        time.sleep(0.05)
