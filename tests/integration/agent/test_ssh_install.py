"""`windlass agent install` on real sshds in one go, one of which fails at each step in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_here
from tests.real_cluster import WINDLASS, RealCluster, eventually
from tests.sshd import MISSING, SSHD, Sshd, make_key
from windlass.install.hosts import parse_host
from windlass.install.ssh import Access, HostError, RemoteMachine
from windlass.sdk.client import Client
from windlass.sdk.session import Session

pytestmark = pytest.mark.skipif(SSHD is None, reason=MISSING)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    pools = [{"pool_name": "default"}, {"pool_name": "gpu"}]
    with RealCluster(tmp_path_factory.mktemp("install"), {"resource_pools": pools}) as cluster:
        yield cluster


@dataclass
class Lab:
    """Three machines, and somebody who may log in to them."""

    cluster: RealCluster
    folder: Path
    machines: list[Sshd]

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def know(self, *machines: Sshd) -> None:
        self.known_hosts.write_text("".join(machine.known_host for machine in machines))

    @property
    def environ(self) -> dict[str, str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("DET_", "SSH_"))}
        return environ | self.cluster.login_as("admin") | {"HOME": str(self.folder)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [WINDLASS, "-m", self.cluster.url, "agent", *words],
            capture_output=True,
            text=True,
            check=False,
            env=self.environ,
            timeout=110,
        )

    def install(self, *words: str, **settings: str) -> tuple[int, list[Json], str]:
        """`settings`: of the machine of that name, instead of its own."""
        lines = [
            f"{machine.spec} agent_id={name} artificial_slots=1 {settings.get(name, '')}"
            for name, machine in zip("abc", self.machines, strict=True)
        ]
        hosts = self.folder / "hosts"
        hosts.write_text("# machines\n" + "\n".join(lines) + "\n")
        done = self.run(
            *("install", "--hosts-file", str(hosts), "--user", "--json", "--pool", "gpu"),
            *("--identity", str(self.folder / "key"), "--known-hosts", str(self.known_hosts)),
            *words,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, json.loads(done.stdout or "[]"), done.stderr

    def uninstall(self, *words: str) -> list[Json]:
        done = self.run(
            *("uninstall", *(m.spec for m in self.machines), "--user", "--json", "--yes"),
            *("--identity", str(self.folder / "key"), "--known-hosts", str(self.known_hosts)),
            *words,
        )
        return list(json.loads(done.stdout))


@pytest.fixture
def lab(cluster: RealCluster, tmp_path: Path) -> Iterator[Lab]:
    key = make_key(tmp_path / "key")
    machines = [Sshd(tmp_path / name, key) for name in "abc"]
    lab = Lab(cluster, tmp_path, machines)
    lab.know(*machines)
    try:
        for machine in machines:
            machine.stub_python()
            machine.start()
        yield lab
    finally:
        for machine in machines:
            machine.end()


def test_three_machines_in_one_go_one_of_which_fails_and_is_mended(lab: Lab) -> None:
    a, b, c = lab.machines
    b.stub_python(pip="echo 'ERROR: No matching distribution found for orjson' >&2; exit 1")
    code, outcomes, told = lab.install()
    assert code == 1
    assert [o["result"] for o in outcomes] == ["installed", "failed", "installed"]
    assert outcomes[1]["step"] == "installing"
    assert "No matching distribution found for orjson" in outcomes[1]["error"]
    assert (outcomes[0]["agent_id"], outcomes[0]["pool"], outcomes[0]["slots"]) == ("a", "gpu", 1)
    assert "1 of 3 machines failed" in told
    assert f"{a.spec}: installed" in told.splitlines()
    assert set(lab.cluster.agents()) == {"a", "c"}

    b.stub_python()
    code, outcomes, _ = lab.install()
    assert code == 0, outcomes
    unchanged = "already installed, same version"
    assert [o["result"] for o in outcomes] == [unchanged, "installed", unchanged]
    assert set(lab.cluster.agents()) == {"a", "b", "c"}
    with Session(lab.cluster.url) as session:
        session.login("admin", lab.cluster.password)
        tokens = Client(session).join_tokens()
    assert {token["state"] for token in tokens} == {"revoked"}
    assert sorted(name for token in tokens for name in token["joined"]) == ["a", "b", "c"]
    for machine in lab.machines:
        (agent,) = machine.home.agents()
        assert "wjt_" not in " ".join([*agent.cmdline(), *agent.environ().values()])

    c.home.program("tar", "echo no tar here >&2; exit 1")
    prefix = c.home.home / ".local/share/windlass/agent"
    (current,) = (prefix / "venvs").iterdir()
    current.rename(prefix / "venvs" / "0.0.9-old")
    (prefix / "current").unlink()
    (prefix / "current").symlink_to("venvs/0.0.9-old")
    code, outcomes, _ = lab.install()
    assert (code, outcomes[2]["step"]) == (1, "copying")
    assert "c" in lab.cluster.agents(), "the old version goes on"
    (c.home.bin / "tar").unlink()
    code, outcomes, _ = lab.install()
    assert (code, outcomes[2]["result"]) == (0, "upgraded")

    a.stop()
    outcomes = lab.uninstall()
    assert [o["result"] for o in outcomes] == ["failed", "removed", "removed"]
    assert "Connection refused" in outcomes[0]["error"]
    a.start()
    outcomes = lab.uninstall()
    assert [o["result"] for o in outcomes] == ["removed", "not installed", "not installed"]
    assert not any(machine.home.agents() for machine in lab.machines)
    left = [list((m.home.home / ".local/share/windlass").glob("**/*")) for m in lab.machines]
    assert left == [[], [], []]
    eventually("all are forgotten", lambda: not lab.cluster.agents())


Break = Callable[[Lab, Sshd], Callable[[], None]]
"""Breaks a machine; the answer mends it."""


def unknown_key(lab: Lab, machine: Sshd) -> Callable[[], None]:
    lab.know(*(m for m in lab.machines if m is not machine))
    return lambda: lab.know(*lab.machines)


def other_key(lab: Lab, machine: Sshd) -> Callable[[], None]:
    lab.know(*(m for m in lab.machines if m is not machine))
    wrong = lab.machines[0].known_host.replace(str(lab.machines[0].port), str(machine.port))
    lab.known_hosts.write_text(lab.known_hosts.read_text() + wrong)
    return lambda: lab.know(*lab.machines)


def no_login(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.authorize(None)
    return lambda: machine.authorize(lab.folder / "key")


def away(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.stop()
    return machine.start


def old_python(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.stub_python(version="3.9")
    return machine.stub_python


def no_venv(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.stub_python(venv=0)
    return machine.stub_python


def full_disk(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.home.program("mktemp", "echo 'mktemp: No space left on device' >&2; exit 1")
    return (machine.home.bin / "mktemp").unlink


def broken_pip(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.stub_python(pip="echo 'ERROR: Could not find a version' >&2; exit 1")
    return machine.stub_python


def no_systemd(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.home.break_systemctl("show")
    return lambda: machine.home.break_systemctl("nothing")


def broken_service(lab: Lab, machine: Sshd) -> Callable[[], None]:
    machine.home.break_systemctl("start", "restart")
    return lambda: machine.home.break_systemctl("nothing")


STEPS: tuple[tuple[Break, str, str], ...] = (
    (away, "connecting", "Connection refused"),
    (unknown_key, "connecting", "ssh-keyscan -p"),
    (other_key, "connecting", "shows another key"),
    (no_login, "connecting", "accepts none of our keys"),
    (old_python, "looking for Python", "no Python 3.11 or newer"),
    (no_venv, "looking for Python", "python3.14-venv"),
    (full_disk, "copying", "No space left on device"),
    (broken_pip, "installing", "Could not find a version"),
    (no_systemd, "joining", "systemd cannot run the agent here"),
    (broken_service, "joining", "systemctl --user"),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_fails_at_each_step_in_turn_and_the_others_do_not_notice(lab: Lab) -> None:
    for number, (break_it, step, said) in enumerate(STEPS):
        mend = break_it(lab, lab.machines[1])
        code, outcomes, _ = lab.install()
        assert code == 1, (break_it, outcomes)
        good = "already installed, same version" if number else "installed"
        assert [o["result"] for o in outcomes] == [good, "failed", good], outcomes
        assert outcomes[1]["step"] == step, outcomes[1]
        assert said in outcomes[1]["error"], outcomes[1]
        mend()
    code, outcomes, _ = lab.install(b="agent_id=a")
    assert (code, outcomes[1]["step"]) == (1, "joining")
    assert "has another credential" in outcomes[1]["error"]
    code, outcomes, _ = lab.install()
    assert code == 0, outcomes
    assert set(lab.cluster.agents()) == {"a", "b", "c"}
    # Tests that follow have other machines with these names.
    assert [o["result"] for o in lab.uninstall()] == ["removed", "removed", "removed"]
    eventually("all are forgotten", lambda: not lab.cluster.agents())


def test_by_way_of_a_jump_host_whose_key_is_checked_too(lab: Lab) -> None:
    a, b, c = lab.machines
    code, outcomes, _ = lab.install("-J", a.spec, "--no-service")
    assert code == 0, outcomes
    lab.know(b, c)
    code, outcomes, _ = lab.install("-J", a.spec, "--no-service")
    assert code == 1
    assert all("its key is not known here" in o["error"] for o in outcomes)


def test_what_cannot_be_meant_is_told_before_anything_is_done(lab: Lab) -> None:
    hosts = lab.folder / "wrong"
    for text, said in (
        ("root@x:99999", "is not a machine"),
        ("-oProxyCommand=x", "begins with a dash"),
        ("x agent_id", "line 1"),
        ("", "which machines?"),
        ("a@x\na@x", "named twice"),
    ):
        hosts.write_text(text)
        done = run_here(("agent", "install", "--hosts-file", str(hosts)), lab.environ)
        assert done.returncode == 1
        assert said in done.stderr
    done = run_here(("agent", "install", "x", "--identity", "/no/such/key"), lab.environ)
    assert "--identity /no/such/key: there is no such file" in done.stderr
    done = run_here(("agent", "install", "x", "--wheels", "/no/such"), lab.environ)
    assert "there is no such folder" in done.stderr


SUDO = """\
reads=no
while [ "$1" != "--" ]; do
  case "$1" in -S) reads=yes ;; -p) shift ;; esac
  shift
done
shift
if [ {asks} = yes ]; then
  if [ $reads = no ]; then echo "sudo: a password is required" >&2; exit 1; fi
  read -r password
  if [ "$password" != secret ]; then echo "sudo: 1 incorrect password attempt" >&2; exit 1; fi
fi
FAKE_ROOT=yes exec "$@"
"""


@pytest.mark.parametrize(
    ("asks", "password", "said"),
    [
        ("no", None, ""),
        ("no", "secret", ""),
        ("yes", "secret", ""),
        ("yes", None, "a password is required: give --ask-sudo-pass"),
        ("yes", "wrong", "incorrect password"),
    ],
)
def test_a_password_for_sudo_reaches_sudo_and_nobody_else(
    tmp_path: Path, asks: str, password: str | None, said: str
) -> None:
    key = make_key(tmp_path / "key")
    machine = Sshd(tmp_path / "m", key)
    machine.home.program("sudo", SUDO.format(asks=asks))
    machine.home.program("id", '[ -n "$FAKE_ROOT" ] && echo 0 || echo 1000')
    known = tmp_path / "known_hosts"
    known.write_text(machine.known_host)
    access = Access(identity=key, known_hosts=known, sudo_password=password)
    machine.start()
    try:
        with RemoteMachine(parse_host(machine.spec), access) as connected:
            if said:
                with pytest.raises(HostError, match=said):
                    connected.become_root()
                return
            connected.become_root()
            done = connected.run('echo "$FAKE_ROOT $1"; cat', "word", given=b"token")
        assert done.out == "yes word\ntoken"
    finally:
        machine.end()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_real_environments_without_a_package_index(lab: Lab) -> None:
    """By the real venv and pip of the machine, from wheels made of what is installed here."""
    machine = lab.machines[0]
    for name in ("python3.14", "python3.13", "python3.12", "python3.11", "python3"):
        (machine.home.bin / name).unlink()
    wheels = lab.folder / "wheels"
    made = lab.run("wheels", str(wheels))
    assert made.returncode == 0, made.stderr
    assert len(list(wheels.glob("windlass_cluster-*.whl"))) == 1
    done = lab.run(
        *("install", machine.spec, "--user", "--json", "--wheels", str(wheels)),
        *("--python", os.path.realpath(sys.executable), "--set", "agent_id=real"),
        *("--identity", str(lab.folder / "key"), "--known-hosts", str(lab.known_hosts)),
    )
    outcomes = json.loads(done.stdout)
    assert outcomes[0]["result"] == "installed", outcomes
    assert "real" in lab.cluster.agents()
    (agent,) = machine.home.agents()
    assert agent.exe()
    assert str(machine.home.home / ".local/share/windlass/agent/venvs") in agent.cmdline()[0]
    outcomes = lab.uninstall()
    assert [o["result"] for o in outcomes] == ["removed", "not installed", "not installed"]
    assert not (machine.home.home / ".local/share/windlass/agent").exists()
