"""Ways to slurmrestd: HTTP, a Unix socket, or a process for each request."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx2

from provisioner.batch.commands import Commands
from provisioner.batch.slurm.rest.client import RestClient
from provisioner.batch.slurm.rest.inetd import InetdTransport
from provisioner.batch.slurm.rest.system import RestSystem
from provisioner.batch.slurm.rest.tokens import CommandTokens, FileTokens, Tokens
from provisioner.sections.slurm_api import INETD, UNIX, SlurmApiSection

USER = "{user}"
"""In a command that mints tokens: for whom."""


def rest_system(api: SlurmApiSection, commands: Commands) -> RestSystem:
    """`commands` run where `inetd:` is, and mint tokens."""
    return _system(api, commands, commands)


def user_system(
    api: SlurmApiSection, user: str, commands: Commands, as_user: Commands
) -> RestSystem:
    """The same site as another user: with a token of theirs, or a process of theirs. `as_user`: their commands.

    Users mint their own tokens. Where a command mints them for others it says `{user}`, and runs as the master.
    """
    mints = commands if any(USER in word for word in api.token_command) else as_user
    return _system(api.model_copy(update={"user": user}), as_user, mints)


def _system(api: SlurmApiSection, commands: Commands, mints: Commands) -> RestSystem:
    tokens: Tokens | None = None
    if api.token_file is not None:
        tokens = FileTokens(Path(api.token_file))
    elif api.token_command:
        line = [word.replace(USER, api.user) for word in api.token_command]
        tokens = CommandTokens(mints, line)
    return RestSystem(_client(api, commands, tokens), commands, api.user)


def _client(api: SlurmApiSection, commands: Commands, tokens: Tokens | None) -> RestClient:
    if api.url.startswith(UNIX):
        path = api.url.removeprefix(UNIX)
        return RestClient(
            path,
            lambda: httpx2.AsyncHTTPTransport(uds=path),
            tokens=tokens,
            user=api.user,
        )
    if api.url.startswith(INETD):
        transport = InetdTransport(commands, api.url.removeprefix(INETD))
        return RestClient(api.url, lambda: transport)
    trusted = ssl.create_default_context()
    return RestClient(
        api.url,
        lambda: httpx2.AsyncHTTPTransport(verify=trusted),
        base=api.url,
        tokens=tokens,
        user=api.user,
    )
