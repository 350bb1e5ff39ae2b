"""A cluster by TLS, with a private authority and with one of the master's own: every client, agent and task of it."""

from __future__ import annotations

import os
import pty
import signal
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.agent_home import AgentHome
from tests.certificates import DAY, Authority, Issued, self_signed
from tests.real_cluster import PATIENCE_S, WINDLASS, RealCluster, embedded_pool, eventually
from windlass.base.tls.fingerprints import fingerprint_of
from windlass.base.tls.presented import presented_chain
from windlass.sdk.interactive import COMMAND

COMPAT = Path(__file__).parents[3] / ".compat" / "bin"
PUBLISHED_PYTHON = {"python": str(COMPAT / "python")}
"""In agent.yaml: what tasks that choose no Python use."""
PUBLISHED_TRIAL = Path(__file__).parents[2] / "compat" / "core_api"
GATED_TRIAL = Path(__file__).parents[1] / "stopping" / "model"
DET = str(Path(sys.executable).with_name("det"))

published = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


@dataclass(frozen=True)
class Private:
    """A cluster whose certificate a private authority has signed."""

    cluster: RealCluster
    authority: Authority
    gates: Path


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    folder = tmp_path_factory.mktemp("private")
    authority, gates = Authority(folder / "authority"), folder / "gates"
    gates.mkdir(mode=0o777)
    gates.chmod(0o777)
    issued = authority.issue()
    files = {"cert": str(issued.cert), "key": str(issued.key), "ca": str(authority.root)}
    pools = [{"pool_name": "default"}, embedded_pool(max_instances=1)]
    config = {"resource_pools": pools, "security": {"tls": files}}
    with RealCluster(folder / "cluster", config, trust=authority.root) as cluster:
        cluster.start_agent("node", slots=2, options=PUBLISHED_PYTHON)
        yield Private(cluster, authority, gates)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster whose master signs its certificate itself; the agent has the fingerprint."""
    folder = tmp_path_factory.mktemp("own")
    tls = {"self_signed": True}
    with RealCluster.self_signed(folder / "cluster", {"security": {"tls": tls}}) as cluster:
        cluster.start_agent("node", slots=2, options=PUBLISHED_PYTHON)
        yield cluster


def _windlass(cluster: RealCluster, verb: str) -> list[str]:
    files = ["-c", str(cluster.config_file), "--data-dir", str(cluster.data_dir)]
    return [WINDLASS, "master", verb, *files]


def _printed(cluster: RealCluster, verb: str, *words: str) -> bytes:
    command = [*_windlass(cluster, verb), *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


def _gated(gates: Path) -> dict[str, Any]:
    return {
        "name": "gated",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "loss"},
        "max_restarts": 0,
        "bind_mounts": [{"host_path": str(gates), "container_path": "/gates"}],
    }


def _published_config() -> dict[str, Any]:
    return {
        "name": "published",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "val_loss"},
        "hyperparameters": {"scale": 3.0},
        "max_restarts": 0,
    }


def _completed(cluster: RealCluster, experiment: int) -> None:
    ended = cluster.wait(experiment)
    (trial,) = cluster.trials(experiment)
    assert ended["state"] == "STATE_COMPLETED", cluster.logs_of(trial["id"])


def _command(cluster: RealCluster, script: str, pool: str = "default") -> str:
    """What a command prints."""
    config = {"entrypoint": ["sh", "-c", script], "resources": {"resource_pool": pool, "slots": 0}}
    commands = cluster.client.interactive(COMMAND)
    made = commands.launch(config)["command"]["id"]
    eventually("the command ends", lambda: commands.one(made)["exitStatus"])
    return "".join(str(entry["message"]) for entry in cluster.client.task_logs(made))


# --- tasks ------------------------------------------------------------------------------------------------------------


@published
def test_a_trial_of_the_published_package(private: Private) -> None:
    cluster = private.cluster
    _completed(cluster, cluster.submit(_published_config(), PUBLISHED_TRIAL))


def test_what_tasks_are_told(private: Private) -> None:
    said = _command(
        private.cluster, 'env | grep "DET_MASTER\\|USE_TLS"; cat "$DET_MASTER_CERT_FILE"'
    )
    assert f"DET_MASTER={private.cluster.url}" in said
    assert "DET_USE_TLS=true" in said
    assert private.authority.root.read_text().splitlines()[1] in said


def test_a_task_of_an_instance_that_the_master_has_launched(private: Private) -> None:
    said = _command(private.cluster, "echo $DET_MASTER; python3 -c 'print(1+1)'", pool="compute")
    assert private.cluster.url in said


@published
def test_trials_of_a_master_that_signs_for_itself(own: RealCluster) -> None:
    gates = own.folder / "gates"
    gates.mkdir()
    gates.chmod(0o777)
    (gates / "open").touch()
    both = [
        own.submit(_gated(gates), GATED_TRIAL),
        own.submit(_published_config(), PUBLISHED_TRIAL),
    ]
    for experiment in both:
        _completed(own, experiment)


# --- clients ----------------------------------------------------------------------------------------------------------


def _client(
    program: str, cluster: RealCluster, home: Path, *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    login = {k: v for k, v in cluster.login_as().items() if k != "DET_MASTER_CERT_FILE"}
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [program, "-m", cluster.url, *words],
        env={"HOME": str(home), "PATH": os.environ["PATH"], **login, **more},
        input="y\n" * 3,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


CLIENTS = [
    pytest.param(DET, id="ours"),
    pytest.param(str(COMPAT / "det"), id="published", marks=published),
]


@pytest.mark.parametrize("program", CLIENTS)
def test_a_client_with_the_authority(private: Private, program: str, tmp_path: Path) -> None:
    root = str(private.authority.root)
    done = _client(program, private.cluster, tmp_path, "agent", "list", DET_MASTER_CERT_FILE=root)
    assert done.returncode == 0, done.stderr
    assert "node" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("program", CLIENTS)
def test_a_client_that_trusts_anybody(private: Private, program: str, tmp_path: Path) -> None:
    given = {"DET_MASTER_CERT_FILE": "noverify", "PYTHONWARNINGS": "ignore"}
    done = _client(program, private.cluster, tmp_path, "user", "whoami", **given)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", CLIENTS)
def test_plain_http_is_told_so(private: Private, program: str, tmp_path: Path) -> None:
    plain = private.cluster.url.replace("https:", "http:")
    done = _client(program, private.cluster, tmp_path, "-m", plain, "agent", "list")
    assert done.returncode != 0
    words = f"this port speaks HTTPS only: write {private.cluster.url} for the URL of the master: -m or DET_MASTER"
    assert words in " ".join((done.stdout + done.stderr).split())


@published
def test_what_the_published_client_has_accepted_counts_for_ours(
    own: RealCluster, tmp_path: Path
) -> None:
    ours_before = _client(DET, own, tmp_path, "agent", "list")
    assert ours_before.returncode != 0
    assert "on a terminal, or set DET_MASTER_CERT_FILE" in ours_before.stderr
    first = _client(str(COMPAT / "det"), own, tmp_path, "agent", "list")
    assert first.returncode == 0, first.stderr
    assert "SHA256 fingerprint" in first.stdout + first.stderr
    assert _client(DET, own, tmp_path, "agent", "list").returncode == 0


def _on_a_terminal(cluster: RealCluster, home: Path, answer: str, *words: str) -> tuple[int, str]:
    """What our client shows there, and its exit code."""
    login = {k: v for k, v in cluster.login_as().items() if k != "DET_MASTER_CERT_FILE"}
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [DET, "-m", cluster.url, *words],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", **login},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answer.encode() + b"\n")
    shown = b""
    with suppress(OSError):  # EIO: all was read
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    return started.wait(timeout=PATIENCE_S), shown.decode()


@published
def test_what_ours_has_accepted_counts_for_the_published_client(
    own: RealCluster, tmp_path: Path
) -> None:
    code, shown = _on_a_terminal(own, tmp_path, "n", "agent", "list")
    assert code != 0
    assert "was not accepted" in shown
    code, shown = _on_a_terminal(own, tmp_path, "y", "agent", "list")
    assert code == 0, shown
    assert _printed(own, "certificate").decode().strip() in shown
    other = _client(str(COMPAT / "det"), own, tmp_path, "agent", "list")
    assert other.returncode == 0, other.stderr
    assert "fingerprint" not in other.stdout + other.stderr


# --- agents -----------------------------------------------------------------------------------------------------------


def _refused_agent(
    cluster: RealCluster, work_dir: Path, *options: str, words: str, url: str = ""
) -> None:
    """An agent that says `words` of its master, and does not join."""
    started = subprocess.Popen(
        [
            *(WINDLASS, "agent", "run", "--master", url or cluster.url, "--agent-id", "stranger"),
            *("--join-token-file", str(cluster.folder / "default.token")),
            *("--work-dir", str(work_dir), "--artificial-slots", "1", *options),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    guard = threading.Timer(PATIENCE_S, started.kill)
    guard.start()
    try:
        assert started.stderr is not None
        heard = ""
        for line in started.stderr:
            heard += line
            if words in line:
                return
        raise AssertionError(heard)
    finally:
        guard.cancel()
        started.kill()
        started.wait()
        if started.stderr is not None:
            started.stderr.close()


def test_an_agent_that_trusts_nobody_of_them(private: Private, tmp_path: Path) -> None:
    _refused_agent(private.cluster, tmp_path, words="is signed by nobody that is trusted here")


@pytest.mark.slow
def test_an_agent_with_another_authority(private: Private, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    options = ("--master-cert", str(other.root))
    _refused_agent(private.cluster, tmp_path, *options, words="is signed by nobody that is trusted")


def test_an_agent_with_another_fingerprint(own: RealCluster, tmp_path: Path) -> None:
    """The certificate was swapped, or something else answers there."""
    expected = self_signed(tmp_path).fingerprint
    got = _printed(own, "certificate").decode().strip()
    options = ("--cert-fingerprint", expected)
    words = f"is not the expected one: expected {expected}, got sha256:"
    _refused_agent(own, tmp_path, *options, words=words)
    _refused_agent(own, tmp_path / "b", *options, words=got)


def test_an_agent_that_calls_the_master_by_another_name(private: Private, tmp_path: Path) -> None:
    options = ("--master-cert", str(private.authority.root), "--master-cert-name", "other.lab")
    words = "is for localhost, 127.0.0.1, not for other.lab: call the master by one of these names"
    _refused_agent(private.cluster, tmp_path, *options, words=words)


def test_an_agent_that_speaks_plain_http(private: Private, tmp_path: Path) -> None:
    plain = private.cluster.url.replace("https:", "http:")
    words = f"{plain} answered HTTP 400: this port speaks HTTPS only: write {private.cluster.url} for the URL"
    _refused_agent(private.cluster, tmp_path, words=words, url=plain)


def test_an_agent_whose_master_shows_an_expired_certificate(
    private: Private, tmp_path: Path
) -> None:
    """A master of ours would not serve it: something before it does."""
    authority, now = Authority(tmp_path / "authority"), datetime.now(UTC)
    expired = authority.issue(valid=(now - 2 * DAY, now - DAY))
    options = ("--master-cert", str(authority.root))
    with _serving(expired) as url:
        words = "has expired (the clock here says"
        _refused_agent(private.cluster, tmp_path / "a", *options, words=words, url=url)
        pinned = ("--cert-fingerprint", expired.fingerprint)
        _refused_agent(private.cluster, tmp_path / "b", *pinned, words=words, url=url)


@contextmanager
def _serving(issued: Issued) -> Iterator[str]:
    """A server that does handshakes with this certificate, and no more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert, issued.key)

    class Handshake(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as secure:
                secure.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handshake) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_machine_joins_by_the_line_that_an_administrator_is_given(
    own: RealCluster, tmp_path: Path
) -> None:
    """It has the fingerprint; without that, whoever types the line is told which option to give."""
    made = subprocess.run(
        [WINDLASS, "-m", own.url, "master", "join-token", "create", "default", "--uses", "2"],
        env=os.environ | own.login_as("admin"),
        capture_output=True,
        text=True,
        check=True,
    )
    line = made.stdout.split()[2:]
    assert line[4:] == ["--cert-fingerprint", _printed(own, "certificate").decode().strip()]
    home = AgentHome(tmp_path / "home")
    who = ("--user", "--agent-id", "joined", "--set", "artificial_slots=1")
    try:
        blind = home.run_here(*line[:4], *who)
        assert blind.returncode == 1
        (sentence,) = [text for text in blind.stderr.splitlines() if text.startswith("error:")]
        assert "is signed by nobody that is trusted here" in sentence
        assert f"(certificate: {_shown(own)}, authority: {line[5]})" in sentence
        assert "give --cert-fingerprint with the fingerprint that `windlass master" in sentence
        assert "security.tls" not in sentence
        plain = home.run_here("join", own.url.replace("https:", "http:"), *line[2:4], *who)
        assert f"this port speaks HTTPS only: write {own.url} for the URL" in plain.stderr
        assert not home.config.exists()
        done = home.run(*line, *who)
        assert done.returncode == 0, done.stderr
        assert "joined" in own.agents()
        assert home.settings["security"] == {"tls": {"cert_fingerprint": line[5]}}
    finally:
        home.end()


# --- while it runs ----------------------------------------------------------------------------------------------------


def _shown(cluster: RealCluster) -> str:
    return fingerprint_of(presented_chain("127.0.0.1", cluster.port)[0])


def _reload(cluster: RealCluster, event: str) -> dict[str, Any]:
    """What the master says when it has looked at its files."""
    before = len([e for e in cluster.events() if e["event"] == event])
    os.kill(cluster.master_pid, signal.SIGHUP)

    def look() -> dict[str, Any] | None:
        found = [e for e in cluster.events() if e["event"] == event]
        return found[-1] if len(found) > before else None

    return eventually(event, look)


def test_a_new_certificate_under_load(private: Private) -> None:
    """Reports of a trial, calls of clients on new connections, and the agent's: none is lost."""
    cluster = private.cluster
    experiment = cluster.submit(_gated(private.gates), GATED_TRIAL)
    eventually("it reports", lambda: _reported(cluster, experiment) > 3)
    stop, failures, calls = threading.Event(), list[str](), [0]

    def call() -> None:
        while not stop.is_set():
            try:
                with cluster.session() as session:
                    session.get("/info")
                calls[0] += 1
            except Exception as error:  # noqa: BLE001 - the test is about any
                failures.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    shown = {_shown(cluster)}
    for _ in range(3):
        new = private.authority.issue()
        _reload(cluster, "serving a new certificate")
        shown.add(_shown(cluster))
        assert _shown(cluster) == new.fingerprint
        _more_calls(calls)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(shown) == 4
    assert failures == []
    before = _reported(cluster, experiment)
    eventually("it still reports", lambda: _reported(cluster, experiment) > before)
    (private.gates / "open").touch()
    _completed(cluster, experiment)
    (private.gates / "open").unlink()
    (trial,) = cluster.trials(experiment)
    assert "trying again" not in cluster.logs_of(trial["id"])
    connected = [a for a in cluster.client.agents() if a["id"] == "node"]
    assert len(connected) == 1


def _more_calls(calls: list[int]) -> None:
    enough = calls[0] + 5
    eventually("calls go on", lambda: calls[0] >= enough)


def _reported(cluster: RealCluster, experiment: int) -> int:
    trials = cluster.trials(experiment)
    return int(trials[0]["totalBatchesProcessed"]) if trials else 0


def test_a_bad_new_certificate_is_not_used(private: Private) -> None:
    cluster, before = private.cluster, _shown(private.cluster)
    now = datetime.now(UTC)
    private.authority.issue(valid=(now - 2 * DAY, now - DAY))
    said = _reload(cluster, "the new certificate is not used, the old one still is")
    assert "has expired on" in said["problem"]
    assert _shown(cluster) == before
    with cluster.session() as session:
        assert session.get("/info")
    good = private.authority.issue()
    _reload(cluster, "serving a new certificate")
    assert _shown(cluster) == good.fingerprint


def test_a_new_certificate_of_its_own_changes_nothing_for_others(own: RealCluster) -> None:
    before = _shown(own)
    (own.data_dir / "tls" / "master.pem").unlink()
    _reload(own, "serving a new certificate")
    assert _shown(own) != before
    own.kill_agent("node")
    own.start_agent("node")
    with own.session() as session:
        assert session.get("/info")
