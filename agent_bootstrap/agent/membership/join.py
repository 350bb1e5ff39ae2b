"""`windlass agent join`: the master first, then files, then the service. Each step may be repeated."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from agent_bootstrap.agent.connection.credential import load_or_create
from agent_bootstrap.agent.connection.master_trust import BY_OPTIONS
from agent_bootstrap.agent.membership.master_calls import AgentStatus, MasterCalls
from agent_bootstrap.agent.membership.places import AgentPaths
from agent_bootstrap.agent.membership.systemd import ServiceError, Systemd
from agent_bootstrap.agent.option_layers import read_file
from agent_bootstrap.agent.options import AgentOptions, parse_options
from windlass.base.errors import Conflict, PermissionDenied
from windlass.base.files import write_atomic

POLL_S = 0.3

Say = Callable[[str], None]


class ServiceMode(StrEnum):
    SYSTEMD = "systemd"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """What was asked for."""

    url: str
    places: AgentPaths
    token: str = field(default="", repr=False)
    pool: str = ""
    tls: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `security.tls`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other keys of agent.yaml."""
    service: ServiceMode = ServiceMode.SYSTEMD
    wait_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    standing: AgentStatus
    options: AgentOptions
    config: Path
    hint: str = ""


def join(wish: JoinOptions, say: Say, *, systemd: Systemd | None = None) -> Joined:
    """Raises InvalidConfig, MasterUnreachable, MasterRefused, Conflict, ServiceError, OSError."""
    service = systemd or Systemd(wish.places)
    if wish.service is ServiceMode.SYSTEMD and (problem := service.problem()):
        raise ServiceError(
            f"systemd cannot run the agent here ({problem}): give --no-service, and run it by other means"
        )
    before = read_file(wish.places.config) if wish.places.config.exists() else {}
    options = parse_options(_document(wish, before))
    options.work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    began = datetime.now(UTC)
    with MasterCalls(options, load_or_create(options.work_dir), BY_OPTIONS) as master:
        standing = master.join(wish.token, wish.pool)
        wanted = _document(wish, before) | {"resource_pool": standing.pool}
        changed = wanted != before
        if changed:
            _write(wish.places.config, wanted)
        say(f"Agent {standing.agent_id} has joined pool {standing.pool} of {options.url}")
        joined = Joined(standing=standing, options=parse_options(wanted), config=wish.places.config)
        if wish.service is ServiceMode.NONE:
            return joined
        service.install(run_command(wish.places.config), restart=changed and bool(before))
        standing = _until_connected(master, service, since=began, wait_s=wish.wait_s)
    return Joined(
        standing=standing,
        options=joined.options,
        config=joined.config,
        hint=service.linger_hint(),
    )


def run_command(config: Path) -> list[str]:
    """Of the agent. No secret is on it."""
    return [sys.executable, "-P", "-m", "agent_bootstrap.agent", "--config-file", str(config)]


def _document(wish: JoinOptions, before: Mapping[str, Any]) -> dict[str, Any]:
    """agent.yaml as it is to be: what an operator wrote stays. Raises Conflict for one of another master."""
    url = wish.url.rstrip("/")
    joined_to = before.get("master_url") or before.get("master_host")
    if joined_to and str(before.get("master_url", "")).rstrip("/") != url:
        raise Conflict(
            f"{wish.places.config} is of the agent of {joined_to}: leave that first (windlass agent leave)"
        )
    security = dict(before.get("security") or {})
    if wish.tls:
        security["tls"] = dict(wish.tls)
    document: dict[str, Any] = {
        **before,
        "master_url": url,
        "work_dir": before.get("work_dir", str(wish.places.work_dir)),
        **wish.settings,
    }
    if wish.pool:
        document["resource_pool"] = wish.pool
    if security:
        document["security"] = security
    return document


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "# Written by `windlass agent join`.\n" + yaml.safe_dump(dict(document), sort_keys=False)
    write_atomic(path, text.encode(), durable=True)


def _until_connected(
    master: MasterCalls, service: Systemd, *, since: datetime, wait_s: float
) -> AgentStatus:
    """Raises PermissionDenied with what the master says, ServiceError if nothing is heard of it."""
    deadline = time.monotonic() + wait_s
    while True:
        standing = master.standing(since)
        if standing.connected:
            return standing
        if standing.refused:
            raise PermissionDenied(f"the master refuses the agent: {standing.refused}")
        if time.monotonic() > deadline:
            raise ServiceError(
                f"the agent has joined, but has not connected within {wait_s:g} s; its service is {service.state()}. "
                f"Its log: {service.log_command()}"
            )
        time.sleep(POLL_S)
