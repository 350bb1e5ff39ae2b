"""Shells, by the published client, unmodified: a real sshd on a real agent, through the master alone."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_published_client import COMPAT

from agent_bootstrap.protocol import IsolationKind
from tests.published import PublishedDet, needs_published
from tests.real_cluster import PATIENCE_S, RealCluster, eventually, free_port, listening

pytestmark = needs_published

RESERVED = range(3200, 3260)
"""Ports of this cluster begin after those that other clusters of the machine use first."""
LARGE, BACK = 200_000_000, 50_000_000
KEYS = {
    "RSA": ({"rsa_key_size": 3072}, "RSA PRIVATE KEY", 3072),
    "ECDSA": ({}, "EC PRIVATE KEY", 256),
    "ED25519": ({}, "OPENSSH PRIVATE KEY", 256),
}
"""What a configuration says beside the type; the key's header and bits."""
ANN = {"agentUid": 41001, "agentUser": "ann", "agentGid": 41002, "agentGroup": "lab"}
ROOT = {"agentUid": 0, "agentUser": "root", "agentGid": 0, "agentGroup": "root"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("shells")
    pool = {"pool_name": "default", "require_isolation": False}
    config = {"resource_pools": [pool], "reserved_ports": list(RESERVED)}
    with RealCluster(folder, config) as cluster:
        cluster.start_agent("node", slots=2)
        yield cluster


@pytest.fixture(scope="module")
def det(cluster: RealCluster) -> Iterator[PublishedDet]:
    """For what starts no program: one process for all of it."""
    with PublishedDet(cluster) as det:
        yield det


def environment(cluster: RealCluster) -> dict[str, str]:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    path = f"{COMPAT}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "DET_MASTER": cluster.url, **cluster.login_as()}


def begin(cluster: RealCluster, *words: str) -> subprocess.Popen[str]:
    """A program of the published client, or one beside it, with what it starts in a group of its own."""
    return subprocess.Popen(
        words,
        env=environment(cluster),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def said(program: subprocess.Popen[str]) -> str:
    """By one that succeeds."""
    text, _ = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, text
    return text


def run(cluster: RealCluster, *words: str) -> str:
    return said(begin(cluster, *words))


@contextmanager
def running(cluster: RealCluster, *words: str) -> Iterator[None]:
    program = begin(cluster, *words)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.communicate()


def shell_of(cluster: RealCluster, shell_id: str) -> dict[str, Any]:
    return dict(cluster.client.session.get(f"/api/v1/shells/{shell_id}")["shell"])


def log(cluster: RealCluster, shell_id: str) -> str:
    lines = cluster.client.session.stream(f"/api/v1/tasks/{shell_id}/logs", None)
    return "".join(f"{line['log']}\n" for line in lines)


def is_ready(cluster: RealCluster, shell_id: str) -> bool:
    task = cluster.get(f"/api/v1/tasks/{shell_id}")["task"]
    assert task["endTime"] is None, log(cluster, shell_id)
    return bool(task["allocations"][0]["isReady"])


def start(cluster: RealCluster, det: PublishedDet, *options: str, ready: bool = True) -> str:
    """The id of a shell without slots, that is ready."""
    words = ("--config", "resources.slots=0", *options)
    shell_id = det("shell", "start", "--detach", *words).split()[-1]
    if ready:
        eventually("it is ready", lambda: is_ready(cluster, shell_id))
    return shell_id


def end(cluster: RealCluster, shell_id: str) -> None:
    """By what our client calls, which is faster."""
    cluster.client.session.post(f"/api/v1/shells/{shell_id}/kill")
    eventually("it has ended", lambda: shell_of(cluster, shell_id)["exitStatus"])


def test_a_shell_from_its_start_to_its_end(cluster: RealCluster, det: PublishedDet) -> None:
    variable = 'environment.environment_variables=["SAID=it\'s \\"here\\""]'
    options = ("--config", "resources.slots=1", "--config", variable)
    shell_id = start(cluster, det, *options)
    assert shell_of(cluster, shell_id)["state"] == "STATE_RUNNING"
    told = run(cluster, "det", "shell", "open", shell_id, "env; pwd; id -un")
    assert 'SAID=it\'s "here"' in told
    assert f"DET_TASK_ID={shell_id}" in told
    assert re.search(r"DET_SLOT_IDS=\[\d\]", told)
    port = re.search(r"SHELL_PORT=(\d+)", told)
    assert port
    assert listening(int(port[1])) == {"127.0.0.1"}, "other machines reach it by the master alone"
    assert shell_id in det("shell", "list")
    det("shell", "kill", shell_id)
    ended = eventually("it has ended", lambda: shell_of(cluster, shell_id)["exitStatus"])
    assert ended == "killed by determined"


@dataclass(frozen=True)
class Opened:
    """A shell, and how ssh and those that use it reach it."""

    id: str
    options: list[str]
    host: str


@pytest.fixture(scope="module")
def opened(cluster: RealCluster, det: PublishedDet) -> Iterator[Opened]:
    shell_id = start(cluster, det)
    shown = det("shell", "show-ssh-command", shell_id)
    command = re.search(r"^(?:\x1b\[\d+m)*(ssh .*?)(?:\x1b\[0m)?$", shown, re.MULTILINE)
    assert command
    *options, host = [word for word in shlex.split(command[1])[1:] if word != "-tt"]
    yield Opened(shell_id, options, host)
    end(cluster, shell_id)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_large_files_go_through_it_whole(
    cluster: RealCluster, opened: Opened, tmp_path: Path
) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(LARGE))
    run(cluster, "scp", *opened.options, str(sent), f"{opened.host}:copy")
    words = f"sha256sum copy; truncate -s {BACK} copy"
    assert digest(sent) in run(cluster, "ssh", *opened.options, opened.host, words).split()
    run(cluster, "scp", *opened.options, f"{opened.host}:copy", str(back))
    os.truncate(sent, BACK)
    assert digest(back) == digest(sent)


@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
def test_sftp_and_rsync_go_through_it(cluster: RealCluster, opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "folder" / "below" / "file").write_bytes(os.urandom(100_000))
    sent = digest(tmp_path / "folder" / "below" / "file")
    batch = tmp_path / "batch"
    batch.write_text(f"put -r {tmp_path}/folder by-sftp\nget by-sftp/below/file {tmp_path}/file\n")
    run(cluster, "sftp", "-b", str(batch), *opened.options, opened.host)
    assert digest(tmp_path / "file") == sent
    ssh = shlex.join(["ssh", *opened.options])
    run(cluster, "rsync", "-a", "-e", ssh, f"{tmp_path}/folder/", f"{opened.host}:by-rsync")
    run(cluster, "rsync", "-a", "-e", ssh, f"{opened.host}:by-rsync/", f"{tmp_path}/back")
    assert digest(tmp_path / "back" / "below" / "file") == sent


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:  # noqa: S310 - HTTP
        return bool(reply.status == 200)
    return False


def test_a_port_leads_to_one_over_there(cluster: RealCluster, opened: Opened) -> None:
    local = free_port()
    forward = f"{local}:127.0.0.1:{cluster.port}"
    with running(cluster, "det", "shell", "open", opened.id, "--", "-N", "-L", forward):
        eventually("the port answers", lambda: answers(f"http://127.0.0.1:{local}/info"))


def test_ten_shells_of_one_node_are_opened_at_once(cluster: RealCluster, det: PublishedDet) -> None:
    shells = [start(cluster, det, ready=False) for _ in range(10)]
    for shell in shells:
        eventually("it is ready", lambda shell=shell: is_ready(cluster, shell))
    says = "echo $DET_TASK_ID has $SHELL_PORT"
    programs = [begin(cluster, "det", "shell", "open", shell, says) for shell in shells]
    ports = set()
    for shell, program in zip(shells, programs, strict=True):
        found = re.search(rf"^{shell} has (\d+)", said(program), re.MULTILINE)
        assert found
        ports.add(found[1])
    assert len(ports) == 10
    for shell in shells:
        end(cluster, shell)


def test_a_port_that_somebody_else_has_leads_to_another(
    cluster: RealCluster, det: PublishedDet
) -> None:
    """It goes on while the master starts again, in the tests below: its port stays its own."""
    taken = set()
    for task in cluster.get("/api/v1/tasks")["allocationIdToSummary"].values():
        taken |= {one["port"] for one in task["proxyPorts"]}
    first = next(port for port in range(RESERVED.stop, 3499) if port not in taken)
    with closing(socket.socket()) as other:
        other.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # connections of the shell before

        def bound() -> bool:
            """Once the sshd of the shell before has ended."""
            with suppress(OSError):
                other.bind(("127.0.0.1", first))
                return True
            return False

        eventually("the port is ours", lambda: bound() or None)
        other.listen()
        shell = start(cluster, det)
        says = f"port {first} is in use on this node: trying another"
        eventually("its log says so", lambda: says in log(cluster, shell))
        told = run(cluster, "det", "shell", "open", shell, "echo port $SHELL_PORT")
    port = re.search(r"port (\d+)", told)
    assert port
    assert int(port[1]) > first


def link(cluster: RealCluster, who: Mapping[str, Any]) -> None:
    with closing(cluster.session()) as session:
        session.login("admin", cluster.password)
        me = cluster.get("/api/v1/me")["user"]["id"]
        session.request("PATCH", f"/api/v1/users/{me}", body={"agentUserGroup": dict(who)})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as others")
def test_whom_a_shell_lets_in(cluster: RealCluster, det: PublishedDet) -> None:
    (agent,) = cluster.get("/api/v1/agents")["agents"]
    if agent["isolation"] not in (IsolationKind.BUBBLEWRAP, IsolationKind.NAMESPACES):
        pytest.skip("no namespaces here: tasks run as the agent")
    link(cluster, ANN)
    shell = start(cluster, det)
    told = run(cluster, "det", "shell", "open", shell, "id; touch file; stat -c %U:%G file")
    assert "uid=41001(ann) gid=41002(lab)" in told
    assert "ann:lab" in told
    end(cluster, shell)
    link(cluster, ROOT)
    shell = start(cluster, det, ready=False)
    eventually("it has ended", lambda: shell_of(cluster, shell)["exitStatus"])
    assert "sshd cannot let anybody in as root here" in log(cluster, shell)
    assert "det user link-with-agent-user" in log(cluster, shell)
    link(cluster, {})


@pytest.mark.parametrize("key_type", KEYS)
def test_a_key_of_each_type_opens_its_shell(
    cluster: RealCluster, det: PublishedDet, tmp_path: Path, key_type: str
) -> None:
    """Last: the master starts again for each."""
    more, header, bits = KEYS[key_type]
    config = yaml.safe_load(cluster.config_file.read_text())
    config["security"] = {"ssh": {"key_type": key_type, **more}}
    cluster.config_file.write_text(yaml.safe_dump(config))
    cluster.kill_master()
    cluster.start_master()
    eventually("the agent is back", cluster.agents)
    shell = start(cluster, det)
    told = run(cluster, "det", "shell", "open", shell, "echo as $(id -un) in $DET_TASK_ID")
    assert re.search(rf"as \w+ in {shell}", told)
    private = str(shell_of(cluster, shell)["privateKey"])
    assert private.startswith(f"-----BEGIN {header}-----\n")
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(private)
    shown = run(cluster, "ssh-keygen", "-l", "-f", str(key)).split()
    assert (shown[0], shown[-1]) == (str(bits), f"({key_type})")
    end(cluster, shell)
