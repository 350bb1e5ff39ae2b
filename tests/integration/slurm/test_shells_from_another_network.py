"""Shells and notebooks of somebody whose machine reaches nothing of a Slurm site but sshd of its login node.

laptop 10.77.0.1 ── 10.77.0.2 login node 10.78.0.1 ── 10.78.0.2 nodes; each has a network namespace of its own
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.interactive import JUPYTER, needs_jupyter
from tests.namespaces import Namespace, link, works
from tests.notebook_pages import OF_JUPYTERLAB, page_at
from tests.real_cluster import WINDLASS, eventually
from tests.slurm import Slurm, free_slurm, require_slurm
from tests.sshd import MISSING, SSHD, Login, login_node
from windlass.sdk.certificates import CertificateStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(SSHD is None, reason=MISSING),
    pytest.mark.skipif(not works(), reason="network namespaces cannot be made here"),
]
LOGIN_NODE, LOGIN_NODE_INSIDE, NODES = "10.77.0.2", "10.78.0.1", "10.78.0.2"
LIMIT_S = 110


@dataclass
class Network:
    laptop: Namespace = field(default_factory=Namespace)
    login_node: Namespace = field(default_factory=Namespace)
    nodes: Namespace = field(default_factory=Namespace)

    def connect(self) -> None:
        """The laptop has no route to the nodes, and the login node leads nobody to them."""
        link(self.laptop.sh, self.login_node, 77)
        link(self.login_node.sh, self.nodes, 78)
        self.login_node.sh("echo 0 > /proc/sys/net/ipv4/ip_forward")

    def end(self) -> None:
        for namespace in (self.laptop, self.nodes, self.login_node):
            namespace.end_all()


@dataclass
class Site:
    """With its user's laptop."""

    network: Network
    slurm: Slurm
    login: Login
    home: Path
    """On the laptop."""

    def run(self, *words: str, **environment: str) -> str:
        """`windlass ...` on the laptop: what it said."""
        done = subprocess.run(
            [*self.network.laptop.enter, WINDLASS, *words],
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def hpc(self, *words: str) -> str:
        """On the login node."""
        at = ("--ssh", self.login.sshd.spec, "--ssh-key", str(self.login.key))
        return self.run("hpc", *words, *at, "--ssh-windlass", WINDLASS)

    def jobs(self) -> list[str]:
        return self.network.login_node.run(self.slurm.jobs)

    @contextmanager
    def forwarded(self, line: str, port: int) -> Iterator[None]:
        """`line`: as `windlass hpc up` prints it; ssh alone finds the key elsewhere."""
        command, *words = shlex.split(line)
        own = ("-F", "none", "-i", str(self.login.key))
        known = ("-o", f"UserKnownHostsFile={self.login.known_hosts}")
        tunnel = subprocess.Popen(
            [*self.network.laptop.enter, command, *own, *known, *words], stdin=subprocess.DEVNULL
        )
        try:
            here = ("127.0.0.1", port)
            eventually("ssh listens", lambda: problem_of(self.network.laptop, here) == 0)
            yield
        finally:
            tunnel.terminate()
            tunnel.wait()


def problem_of(there: Namespace, address: tuple[str, int]) -> int:
    """With a connection from there: an errno; 0: none."""

    def tried() -> int:
        with socket.socket() as probe:
            return probe.connect_ex(address)

    return there.run(tried)


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require_slurm()
    folder = tmp_path_factory.mktemp("l")  # short: in it are socket files of Slurm
    folder.chmod(0o755)
    with ExitStack() as stack:
        network = Network()
        stack.callback(network.end)
        network.connect()
        there = network.login_node
        slurm = there.run(lambda: free_slurm(folder / "slurm", nodes=1))
        slurm.controller_at, slurm.nodes_at = LOGIN_NODE_INSIDE, NODES
        slurm.nodes_via = network.nodes.enter
        stack.callback(there.run, slurm.stop)
        there.run(slurm.start)
        at = login_node(
            folder / "at", slurm.environment, address=LOGIN_NODE, started=network.login_node.run
        )
        login = stack.enter_context(at)
        home = folder / "home"
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "known_hosts").write_text(login.sshd.known_host)
        yield Site(network, slurm, login, home)


def master_on_the_laptop(site: Site, said: str, url: str) -> Mapping[str, str]:
    """The variables of `det` there: its certificate is copied from the login node."""
    remote = CertificateStore(site.login.sshd.home.home / ".config/determined/certs.json")
    certificate = site.home / "master.pem"
    certificate.write_text(remote.get(url))
    password = re.search(r"^First password of .*: (\S+)$", said, re.MULTILINE)
    assert password is not None, said
    return {
        "DET_MASTER": f"https://localhost:{urlsplit(url).port}",
        "DET_MASTER_CERT_FILE": str(certificate),
        "DET_USER": "determined",
        "DET_PASS": password[1],
    }


@needs_jupyter
def test_a_shell_and_a_notebook_by_ssh_to_the_login_node_alone(site: Site) -> None:
    said = site.hpc("up")
    record = json.loads((site.login.sshd.home.home / "windlass" / "master.json").read_text())
    at = urlsplit(record["url"])
    port = at.port or 0
    assert at.hostname == LOGIN_NODE_INSIDE
    line = re.search("^From your computer: (ssh -N -L .*)$", said, re.MULTILINE)
    assert line is not None, said
    master = master_on_the_laptop(site, said, record["url"])
    with site.forwarded(line[1], port):
        words = "bash -l -c 'echo job $SLURM_JOB_ID port $SHELL_PORT'"
        told = site.run("shell", "start", "--", words, **master)
        found = re.search(r"^job \d+ port (\d+)\s*$", told, re.MULTILINE)
        assert found is not None, told
        assert_reached_by_the_master_alone(site.network, int(found[1]), port)
        (shell,) = json.loads(site.run("shell", "list", "--json", **master))
        opened = site.run("shell", "open", str(shell["id"]), "echo again", **master)
        assert "again" in opened.split()

        python = f"environment.python={JUPYTER}"
        told = site.run("notebook", "start", "--no-browser", "--config", python, **master)
        url = re.search(rf"^{master['DET_MASTER']}/\S+$", told, re.MULTILINE)
        assert url is not None, told
        certificate = Path(master["DET_MASTER_CERT_FILE"]).read_text()
        page = site.network.laptop.run(lambda: page_at(url[0], certificate))
        assert OF_JUPYTERLAB in page
        site.run("shell", "kill", str(shell["id"]), **master)
    site.hpc("down", "--cancel")
    eventually("its jobs are over", lambda: not site.jobs())
    eventually("its processes are gone", lambda: not processes(site.login.sshd.home.home))


def assert_reached_by_the_master_alone(network: Network, shell: int, master: int) -> None:
    """Of the ports of a shell on its node, and of the master."""
    assert problem_of(network.nodes, ("127.0.0.1", shell)) == 0
    assert problem_of(network.nodes, (LOGIN_NODE_INSIDE, master)) == 0
    assert problem_of(network.login_node, (NODES, shell)) == errno.ECONNREFUSED
    assert problem_of(network.laptop, (NODES, shell)) == errno.ENETUNREACH
    assert problem_of(network.laptop, (LOGIN_NODE_INSIDE, master)) == errno.ENETUNREACH
    assert problem_of(network.laptop, (LOGIN_NODE, master)) == errno.ECONNREFUSED


def processes(home: Path) -> list[psutil.Process]:
    mark = str(home)
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(mark in word for word in process.info["cmdline"] or ())
    ]
