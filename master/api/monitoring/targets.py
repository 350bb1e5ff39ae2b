"""Where Prometheus finds the exporters of machines and GPUs: on every agent's machine, at the ports that are usual."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict

from rm_backends.views import AgentView

EXPORTER_PORTS = (8080, 9400)
"""cAdvisor's and the DCGM exporter's."""


class ScrapeTargets(TypedDict):
    """One entry of Prometheus' `http_sd_config`, with the published labels."""

    targets: list[str]
    labels: dict[str, str]


def scrape_targets(agents: Iterable[AgentView]) -> list[ScrapeTargets]:
    """One for each agent whose address is known."""
    return [
        ScrapeTargets(
            targets=[f"{_host(agent.address)}:{port}" for port in EXPORTER_PORTS],
            labels={"det_agent_id": agent.id, "det_resource_pool": agent.pool},
        )
        for agent in sorted(agents, key=lambda agent: agent.id)
        if agent.address
    ]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
