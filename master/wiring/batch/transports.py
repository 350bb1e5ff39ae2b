"""What the master keeps running for nodes that do not reach it by the network."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from agent_bootstrap.channels.streams import connected
from master.config import MasterConfig
from master.config.batch import BatchSection
from master.wiring.batch.keys import OF_RELAY, channels_of, jobs_root
from master.wiring.batch.pilots import batch_sections
from master.wiring.batch.pools import site_of
from provisioner.batch.far_ends import RelayKeeper


def relay_keepers(
    config: MasterConfig, data_dir: Path, master_url: str, *, own_tls: bool
) -> list[RelayKeeper]:
    """One for each folder of jobs."""
    sections = batch_sections(config.pools())
    wanted = {
        str(jobs_root(section, data_dir)): section
        for section in sections
        if OF_RELAY.intersection(channels_of(section, section.master_url or master_url))
    }
    if not wanted:
        return []
    host, port = own_place(config, master_url, own_tls=own_tls)
    pipes = site_of(sections).pipes
    return [
        RelayKeeper(
            pipes,
            python=section.python or sys.executable,
            root=root,
            dial=partial(connected, host, port),
            arguments=_arguments(section),
        )
        for root, section in wanted.items()
    ]


def own_place(config: MasterConfig, master_url: str, *, own_tls: bool) -> tuple[str, int]:
    """Where this machine reaches what has the master's certificate: the master, or a proxy before it."""
    if not own_tls:
        parts = urlsplit(master_url)
        return parts.hostname or "", parts.port or 443
    everywhere = config.host in ("0.0.0.0", "::")  # noqa: S104
    return ("127.0.0.1" if everywhere else config.host), config.port


def _arguments(section: BatchSection) -> list[str]:
    """Of the relay."""
    host = section.login_host.rpartition("@")[2].partition(":")[0]
    named = ["--host", host] if host else []
    return [*named, *(["--port", str(section.relay_port)] if section.relay_port else [])]
