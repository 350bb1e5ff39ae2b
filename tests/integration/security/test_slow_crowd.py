"""Two thousand connections that hang, and ten users who do not notice."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.integration.security.slow_crowd import honest_users, slow_crowd
from tests.real_cluster import RealCluster

SLOW = 2000
CONFIG = {
    # As slow as the test: so most of them are there until its end.
    "connections": {"header_timeout": "10m"},
}


@pytest.fixture
def many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < SLOW + 500:
        pytest.skip(f"a process may open only {most} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.slow
async def test_ten_users_are_served_while_thousands_hang(tmp_path: Path, many_files: None) -> None:
    with RealCluster(tmp_path, CONFIG) as cluster:
        token = str(cluster.client.session.token)
        async with slow_crowd(cluster.port, token, SLOW) as crowd:
            took = await honest_users(cluster.port, token, users=10, calls=10)
            # Half-sent bodies and unread replies have ten seconds, upgrades of strangers none.
            assert crowd.hanging() >= SLOW * 3 // 7
        assert len(took) == 100
        assert cluster.client.session.get("/api/v1/experiments")
