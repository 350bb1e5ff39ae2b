"""`ssh` of an agent ends with the agent; what has its number later is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from agent_bootstrap.channels.through_ssh import WITH_US

REUSED = """
mkfifo in out
sh -c "$1" sh < in > out & number=$!
exec 9> in 8< out
wait $number
echo $((number - 1)) > /proc/sys/kernel/ns_last_pid || exit 77
sleep 600 8<&- 9>&- & other=$!
[ $other = $number ] || exit 77
exec 9>&-
cat <&8
kill -0 $other || exit 1
kill -9 $other
"""
"""In a namespace of its own for numbers of processes. `cat` waits until nothing of it is left."""


def ssh(folder: Path, line: str) -> dict[str, str]:
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}


def test_it_ends_when_its_agent_does(tmp_path: Path) -> None:
    words = ["/bin/sh", "-c", WITH_US, "sh"]
    environment = ssh(tmp_path, "exec sleep 600")
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment) as started:
        assert started.stdin is not None
        started.stdin.close()
        assert started.wait(30) == -signal.SIGTERM


def test_another_process_that_has_its_number_is_left_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-Urpf", "--mount-proc", "sh", "-c", REUSED, "sh", WITH_US],
        cwd=tmp_path,
        env=ssh(tmp_path, "exit 0"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("numbers of processes cannot be chosen here")
    assert done.returncode == 0, done.stderr
