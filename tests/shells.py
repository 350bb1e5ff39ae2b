"""A shell as its user has it: `det shell`, and the ssh and scp of this machine, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.real_cluster import WINDLASS, RealCluster, eventually

LIMIT_S = 110
ALIAS = "the-shell"


class ClusterShell:
    """One of user determined, who has a home in the folder of the cluster."""

    def __init__(self, cluster: RealCluster, *options: str) -> None:
        """`options`: of `det shell start`."""
        self._cluster = cluster
        self._home = cluster.folder / "home"
        self._home.mkdir(exist_ok=True)
        self.id = self._det("shell", "start", "--detach", *options).decode().split()[-1]

    def open(self, *words: str, stdin: bytes = b"") -> bytes:
        """Waits until it serves. What ssh said, and what the command said there."""
        return self._det("shell", "open", self.id, "--", *words, stdin=stdin)

    def copy(self, source: str, target: str) -> None:
        """By scp: a path there begins with `ALIAS:`."""
        self._run("scp", "-q", "-F", str(self._ssh_config), source, target)

    def look(self) -> dict[str, Any]:
        return dict(self._cluster.get(f"/api/v1/shells/{self.id}")["shell"])

    def listed(self) -> dict[str, Any]:
        """As `det task list` shows it."""
        (found,) = (
            one
            for one in self._cluster.get("/api/v1/tasks")["allocationIdToSummary"].values()
            if one["taskId"] == self.id
        )
        return dict(found)

    def agents(self) -> list[str]:
        """On which it runs."""
        return [id_ for one in self.listed()["resources"] or () for id_ in one["agentDevices"]]

    def log(self) -> str:
        lines = self._cluster.client.session.stream(f"/api/v1/tasks/{self.id}/logs", None)
        return "".join(str(line["log"]) + "\n" for line in lines)

    def kill(self) -> None:
        self._cluster.client.session.post(f"/api/v1/shells/{self.id}/kill")
        assert self.wait() == "killed by determined"

    def wait(self) -> str:
        """How it ended. A batch system may take minutes to end a job."""
        what = "the shell is over"
        return str(eventually(what, lambda: self.look()["exitStatus"], patience_s=150.0))

    @cached_property
    def _ssh_config(self) -> Path:
        file = self._home / f"{self.id}.ssh_config"
        file.write_bytes(self._det("shell", "ssh-config", self.id, "--name", ALIAS))
        return file

    def _det(self, *words: str, stdin: bytes = b"") -> bytes:
        return self._run(WINDLASS, "-m", self._cluster.url, *words, stdin=stdin)

    def _run(self, *command: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            command,
            env={"HOME": str(self._home), "PATH": os.environ["PATH"], **self._cluster.login_as()},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, (command, done.stdout[-1000:], done.stderr[-4000:])
        return done.stdout


class FilesInAShell:
    """In a mounted folder and in its /tmp. Its working directory goes with that of its batch job."""

    def __init__(self, shell: ClusterShell, mounted: Path, at: str) -> None:
        """`mounted` is `at` in the shell."""
        mounted.chmod(0o777)  # it may run as somebody else
        written = f"echo it > {at}/kept; echo it > /tmp/in-tmp; echo $DET_CONTAINER_ID"
        container = shell.open(written).decode().strip()
        self._kept = mounted / "kept"
        self._scratch = Path(tempfile.gettempdir()) / f"windlass-{container}"
        assert list(self._scratch.rglob("in-tmp"))

    def assert_what_is_left(self) -> None:
        assert self._kept.read_text() == "it\n"
        eventually("its /tmp is gone", lambda: not self._scratch.exists())


def assert_told_its_end(shell: ClusterShell) -> None:
    """In its log, at a terminal, and in the list of tasks."""
    ends_at = eventually("its end is listed", lambda: shell.listed()["endsAt"])
    when = f"{ends_at:.16}".replace("T", " ")
    told = (
        f"This task ends at {when} UTC, with the time of its node. Then only what lies in mounted"
    )
    eventually("its log says it", lambda: told in shell.log())
    assert told in shell.open("-tt", "bash -l -c true").decode()
