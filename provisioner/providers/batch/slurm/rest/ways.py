"""Ways to slurmrestd: HTTP, a Unix socket, or a process for each request."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx2

from provisioner.providers.batch.commands import Commands
from provisioner.providers.batch.slurm.rest.client import RestClient
from provisioner.providers.batch.slurm.rest.inetd import InetdTransport
from provisioner.providers.batch.slurm.rest.system import RestSystem
from provisioner.providers.batch.slurm.rest.tokens import CommandTokens, FileTokens, Tokens

UNIX, INETD = "unix:", "inetd:"
PROGRAM = "/usr/sbin/slurmrestd"
"""Not in the PATH of a user who did not log in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Where slurmrestd is, and as whom it is asked."""

    url: str
    """`http://HOST:PORT`, `https://...`, `unix:/PATH`, or `inetd:` with the path of the program, if it is another."""
    user: str = ""
    """Whose the jobs are. Empty: who runs commands."""
    token_file: Path | None = None
    token_command: tuple[str, ...] = ()


def rest_system(api: Api, commands: Commands) -> RestSystem:
    """`commands` run where `inetd:` is, and mint tokens."""
    tokens: Tokens | None = None
    if api.token_file is not None:
        tokens = FileTokens(api.token_file)
    elif api.token_command:
        tokens = CommandTokens(commands, api.token_command)
    return RestSystem(_client(api, commands, tokens), commands, api.user)


def _client(api: Api, commands: Commands, tokens: Tokens | None) -> RestClient:
    if api.url.startswith(UNIX):
        path = api.url.removeprefix(UNIX)
        return RestClient(
            path,
            lambda: httpx2.AsyncHTTPTransport(uds=path),
            tokens=tokens,
            user=api.user,
        )
    if api.url.startswith(INETD):
        transport = InetdTransport(commands, api.url.removeprefix(INETD) or PROGRAM)
        return RestClient(api.url, lambda: transport)
    trusted = ssl.create_default_context()
    return RestClient(
        api.url,
        lambda: httpx2.AsyncHTTPTransport(verify=trusted),
        base=api.url,
        tokens=tokens,
        user=api.user,
    )
