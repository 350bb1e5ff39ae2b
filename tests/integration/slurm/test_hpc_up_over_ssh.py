"""`windlass hpc up --ssh`: a private master on a login node that only sshd leads to, on a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.jails import open_way_to
from tests.real_cluster import WINDLASS, eventually
from tests.slurm import Slurm
from tests.sshd import MISSING, SSHD, Login, login_node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(SSHD is None, reason=MISSING),
]
MODEL = Path(__file__).parent / "model"


@dataclass
class Laptop:
    home: Path
    login: Login

    def run(self, *words: str, code: int = 0) -> str:
        at = ("--ssh", self.login.sshd.spec, "--ssh-key", str(self.login.key))
        program = ("--ssh-windlass", WINDLASS)
        done = subprocess.run(
            [WINDLASS, "hpc", *words, *at, *program],
            env={**os.environ, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def laptop(slurm: Slurm, tmp_path: Path) -> Iterator[Laptop]:
    with login_node(tmp_path / "c", slurm.environment) as login:
        (tmp_path / "home" / ".ssh").mkdir(parents=True)
        (tmp_path / "home" / ".ssh" / "known_hosts").write_text(login.sshd.known_host)
        yield Laptop(tmp_path / "home", login)
        for process in processes(login):
            process.kill()


def processes(login: Login) -> list[psutil.Process]:
    mark = str(login.sshd.home.home)
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in word for word in process.info["cmdline"] or ()):
            found.append(process)
    return found


def test_from_up_to_down_from_a_laptop(laptop: Laptop, slurm: Slurm) -> None:
    there = laptop.login.sshd.home.home
    said = laptop.run("up")
    assert "First password" in said
    assert "ssh -N -L" in said
    record = json.loads((there / "windlass" / "master.json").read_text())
    assert not (laptop.home / "windlass").exists(), "nothing is set up here"
    assert "already runs" in laptop.run("up")
    # As root's tasks run as another user; what the master says to do.
    open_way_to(there / "windlass" / "checkpoints").chmod(0o1777)
    config = there / "config.yaml"
    config.write_text(
        "name: first\nentrypoint: python3 train.py\nhyperparameters: {gate: /run}\n"
        "searcher: {name: single, metric: loss, max_length: 1}\nresources: {slots_per_trial: 2}\n"
    )
    done = subprocess.run(
        [WINDLASS, "experiment", "create", str(config), str(MODEL), "--follow-first-trial"],
        env={**os.environ, "HOME": str(there), "DET_MASTER": record["url"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert "rank 0 of 1: gpus 0,1" in done.stdout, done.stdout + done.stderr
    assert json.loads(laptop.run("status", "--json"))["isUp"]
    eventually("its jobs are over", lambda: not slurm.jobs())
    laptop.run("down")
    assert not json.loads(laptop.run("status", "--json", code=1))["isUp"]
    eventually("its processes are gone", lambda: not processes(laptop.login))
