"""Two agents behind a gateway that lets out what they open, and lets nothing in: all that users open goes through the
connections that the agents opened."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.interactive import JUPYTER, Notebook, launch, needs_jupyter, until_ready
from tests.jails import open_way_to
from tests.namespaces import OUTSIDE, SITE, Site, behind_nat, forwarded, nat_works
from tests.published import needs_published, run_det
from tests.real_cluster import PATIENCE_S, RealCluster, eventually

MODEL = Path(__file__).parent / "model"
AGENTS = ("first", "second")

pytestmark = [
    needs_published,
    pytest.mark.skipif(
        not nat_works(), reason="a gateway with NAT needs root here, iproute2 and iptables"
    ),
]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with behind_nat() as site:
        yield site


@pytest.fixture(scope="module")
def cluster(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Its master is outside, and reached from here at its port."""
    open_way_to(JUPYTER / "bin")
    settings = {"host": "0.0.0.0", "resource_pools": [{"pool_name": "default"}]}  # noqa: S104
    cluster = RealCluster(tmp_path_factory.mktemp("nat"), settings)
    cluster.master_via = site.outside.enter
    here = ("127.0.0.1", cluster.port)
    with ExitStack() as stack:
        led = forwarded(
            socket.create_server(here, backlog=64),
            lambda: site.outside.run(lambda: socket.create_connection(here)),
        )
        stack.enter_context(led)
        stack.enter_context(cluster)
        for name, machine in zip(AGENTS, site.machines, strict=True):
            cluster.start_agent(name, slots=1, via=machine.enter, host=OUTSIDE)
        yield cluster


def why_closed(session: ClientConnection) -> str:
    """What the master said, after all that came before it."""
    try:
        while True:
            session.recv(PATIENCE_S)
    except ConnectionClosed as closed:
        return "" if closed.rcvd is None else closed.rcvd.reason


def leads_on(tunnel: str) -> bool:
    with suppress(InvalidStatus), connect(tunnel, open_timeout=PATIENCE_S):
        return True
    return False


def reached(address: tuple[str, int]) -> str:
    with socket.socket() as one:
        one.settimeout(PATIENCE_S)
        return errno.errorcode.get(one.connect_ex(address), "connected")


def test_nothing_is_opened_from_outside(site: Site) -> None:
    first, second = site.machines
    with first.run(lambda: socket.create_server(("", 0))) as listener:
        address = (SITE[0], int(listener.getsockname()[1]))
        assert second.run(lambda: reached(address)) == "connected"
        assert site.outside.run(lambda: reached(address)) == "EHOSTUNREACH"


def test_a_trial_over_both(cluster: RealCluster) -> None:
    config = {
        "name": "both",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "loss"},
        "resources": {"slots_per_trial": 2},
        "max_restarts": 0,
    }
    experiment = cluster.submit(config, MODEL)
    (trial,) = eventually("its trial", lambda: cluster.trials(experiment))
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", cluster.logs_of(trial["id"])
    met = [f"rank {rank} of {list(SITE)}" for rank in (0, 1)]
    assert cluster.logs_of(trial["id"]).count(str(met)) == 2


@needs_jupyter
def test_a_notebook(cluster: RealCluster) -> None:
    config = {"environment": {"python": str(JUPYTER)}, "resources": {"slots": 0}}
    notebook = Notebook(cluster, launch(cluster, "notebook", config))
    assert "<title>JupyterLab</title>" in notebook.page()
    assert notebook.executed("print(6 * 7)") == "42\n"


def test_a_shell_ends_with_the_connection_and_comes_back_with_it(
    site: Site, cluster: RealCluster
) -> None:
    shell = launch(cluster, "shell", {"resources": {"slots": 1}})
    until_ready(cluster, shell)
    assert shell in run_det(cluster, "shell", "open", shell, "echo $DET_TASK_ID")
    tunnel = f"{cluster.url.replace('http', 'ws', 1)}/proxy/{shell}/"
    with connect(tunnel, open_timeout=PATIENCE_S) as session:
        assert session.recv(PATIENCE_S, decode=True).startswith("SSH-2.0-")
        with site.cut_off():
            session.send(b"SSH-2.0-test\r\n")
            assert re.search("agent (first|second)", why_closed(session))
    eventually("the tunnel leads to it again", lambda: leads_on(tunnel))
    assert shell in run_det(cluster, "shell", "open", shell, "echo $DET_TASK_ID")
