"""Ports of tasks that the proxy leads to: bad ones of new work are refused with field, value and way out."""

from __future__ import annotations

from typing import Any

import pytest

from master.core.expconf import ClusterDefaults, ExperimentConfig, complete
from windlass.base.errors import InvalidConfig

MINIMAL = {
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss", "max_length": 1},
    "checkpoint_storage": {"type": "shared_fs", "host_path": "/ckpt"},
}
FIELD = "<config>.environment.proxy_ports"


def experiment(*ports: dict[str, Any]) -> ExperimentConfig:
    raw = {**MINIMAL, "environment": {"proxy_ports": list(ports)}}
    return complete(raw, defaults=ClusterDefaults(), seed=1, name="n")


@pytest.mark.parametrize(
    ("ports", "line"),
    [
        ([{"proxy_port": 0}], f"{FIELD}[0].proxy_port: must be >= 1 but found 0"),
        ([{"proxy_port": 70000}], f"{FIELD}[0].proxy_port: must be <= 65535 but found 70000"),
        (
            [{"proxy_port": 6000}, {"proxy_port": 7000}, {"proxy_port": 6000, "proxy_tcp": True}],
            f"{FIELD}[2].proxy_port: 6000 is that of proxy_ports[0], too: "
            "leave one of them out, or serve on another port",
        ),
        (
            [{"proxy_port": port} for port in range(2000, 3000)],
            f"{FIELD}: 1000 ports, more than the 100 that one task may have: "
            "serve several things on one port, by their paths",
        ),
        (
            [{"proxy_port": port, "default_service_id": True} for port in (6000, 7000, 8000)],
            f"{FIELD}[1].default_service_id: true, as in proxy_ports[0]: "
            "only one port can be reached by the task's id alone",
        ),
    ],
)
def test_a_bad_port_is_refused(ports: list[dict[str, Any]], line: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        experiment(*ports)
    assert tuple(caught.value.problems) == (line,)


def test_every_problem_is_told_and_not_too_many() -> None:
    with pytest.raises(InvalidConfig) as caught:
        experiment(*({"proxy_port": 6000, "default_service_id": True} for _ in range(1000)))
    assert 3 <= len(caught.value.problems) <= 101


def test_a_hundred_different_ports_are_fine() -> None:
    config = experiment(*({"proxy_port": port} for port in range(2000, 2100)))
    assert len(config.environment.proxy_ports) == 100


def test_what_is_stored_is_read_whatever_its_ports_are() -> None:
    document = experiment({"proxy_port": 6000, "default_service_id": True}).to_json()
    document["environment"]["proxy_ports"] *= 1000
    assert len(ExperimentConfig.from_json(document).environment.proxy_ports) == 1000
