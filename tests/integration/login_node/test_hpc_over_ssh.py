"""`windlass hpc ... --ssh`: on a real sshd, with a program there that says what it was told."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real_cluster import WINDLASS, free_port
from tests.sshd import MISSING, SSHD, Login, login_node, make_key

pytestmark = pytest.mark.skipif(SSHD is None, reason=MISSING)


@dataclass
class Laptop:
    home: Path
    login: Login

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [WINDLASS, "hpc", *words, "--ssh-key", str(self.login.key)],
            env={**os.environ, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def know(self, line: str) -> None:
        (self.home / ".ssh" / "known_hosts").write_text(line)


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    folder = tmp_path_factory.mktemp("laptop")
    with login_node(folder / "cluster") as login:
        (folder / "home" / ".ssh").mkdir(parents=True)
        laptop = Laptop(folder / "home", login)
        laptop.know(login.sshd.known_host)
        yield laptop


def test_the_same_command_runs_there(laptop: Laptop) -> None:
    program = 'echo "$WINDLASS_HPC_LOGIN: $*"; echo problem >&2; exit 3'
    laptop.login.sshd.home.program("windlass", program)
    at, there = laptop.login.sshd.spec, laptop.login.sshd.home.bin / "windlass"
    said = laptop.run(
        "check", "--ssh", at, "--dir", "/it's here", "--json", "--ssh-windlass", str(there)
    )
    assert said.stdout == f"{at}: hpc check --dir /it's here --probe-timeout 5m --json\n"
    assert (said.stderr, said.returncode) == ("problem\n", 3)
    said = laptop.run("down", "--ssh", at, "--cancel", "--ssh-windlass", str(there))
    assert said.stdout == f"{at}: hpc down --cancel\n"


def test_a_login_node_that_cannot_be_used_is_one_sentence(laptop: Laptop, tmp_path: Path) -> None:
    at = laptop.login.sshd.spec
    missing = laptop.run("status", "--ssh", at, "--ssh-windlass", "/nowhere")
    assert missing.stderr == (
        f"error: there is no program /nowhere on {at}: correct --ssh-windlass\n"
    )
    away = laptop.run("status", "--ssh", f"me@127.0.0.1:{free_port()}")
    assert "login node me@127.0.0.1:" in away.stderr
    assert "Connection refused" in away.stderr
    key = make_key(tmp_path / "other").with_suffix(".pub").read_text().split()
    host = laptop.login.sshd.known_host.split()[0]
    laptop.know(f"{host} {key[0]} {key[1]}\n")
    changed = laptop.run("status", "--ssh", at)
    laptop.know(laptop.login.sshd.known_host)
    assert "shows another key than the one in" in changed.stderr
    assert "ssh-keygen -f" in changed.stderr
    for said in (missing, away, changed):
        assert said.returncode == 1
        assert said.stderr.count("\n") == 1


def test_companions_of_ssh_alone_are_refused(laptop: Laptop) -> None:
    assert "need --ssh USER@LOGIN" in laptop.run("status").stderr
