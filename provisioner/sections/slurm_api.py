"""`api` in a provider of type slurm: its REST server."""

from __future__ import annotations

import ipaddress
from typing import Self
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from master.core.expconf.models.schema import Items, Section

UNIX, INETD, PYSLURM = "unix:", "inetd:", "pyslurm:"


class SlurmApiSection(Section):
    """slurmrestd, by which jobs are submitted and asked for; or pyslurm, by which they are listed."""

    url: str
    """`http://HOST:PORT` or `https://...`; `unix:/PATH` of a socket; or `inetd:`, which runs slurmrestd once for each
    request, without a token: on the login node if there is `ssh`; with a path after it where neither
    PATH nor a folder sbin beside Slurm's commands has it. `pyslurm:` lists jobs by that library, where it is installed
    and of the site's release; all else is done by commands."""
    user: str = ""
    """Whose token it is, and whose the jobs are. Needed with a token."""
    token_file: str | None = None
    """A file of mode 600 with a JSON web token, as `scontrol token` prints it. It is read for each call: renew it there
    before it expires."""
    token_command: Items[str] = ()
    """A command that prints a token, such as [scontrol, token, lifespan=3600]. It runs again at half of its time; on
    the login node if there is `ssh`. With `impersonate` it runs as each user, who mints their own; if it says {user},
    as the master, for that user."""
    plain_http: bool = False
    """Send tokens to another machine without TLS, where whoever reads the network can use them."""

    @field_validator("url")
    @classmethod
    def _is_a_way(cls, value: str) -> str:
        for scheme in (UNIX, INETD):
            path = value.removeprefix(scheme)
            if value.startswith(scheme) and (
                path.startswith("/") or (not path and scheme == INETD)
            ):
                return value
        at = urlsplit(value)
        if value == PYSLURM:
            return value
        if at.scheme not in ("http", "https") or not at.hostname or at.path.strip("/"):
            raise ValueError(
                f'"{value}" is none of http://HOST:PORT, https://HOST:PORT, unix:/PATH, inetd: and pyslurm:'
            )
        return value

    @field_validator("token_file")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError(f'"{value}" is not an absolute path')
        return value

    @model_validator(mode="after")
    def _has_a_token(self) -> Self:
        has_token = bool(self.token_file) + bool(self.token_command)
        if has_token > 1:
            raise ValueError("give token_file or token_command, not both")
        is_process = self.url.startswith((INETD, PYSLURM))
        if is_process and (has_token or self.user):
            raise ValueError(
                f"{self.url.partition(':')[0]}: runs as the user who calls it: remove user and tokens"
            )
        if has_token and not self.user:
            raise ValueError("user is required with a token: whose it is")
        if not self.is_unix and not is_process:
            if not has_token:
                raise ValueError("token_file or token_command is required with http")
            if not self.plain_http and _is_open(self.url):
                raise ValueError(
                    "url: a token would cross the network in plain text: use https, unix: or inetd:, or set "
                    "plain_http: true if nobody else reads that network"
                )
        return self

    @property
    def is_pyslurm(self) -> bool:
        return self.url == PYSLURM

    @property
    def is_unix(self) -> bool:
        return self.url.startswith(UNIX)


def require_slurm(api: SlurmApiSection | None) -> None:
    if api is not None:
        raise ValueError("api: PBS has no REST server: remove it")


def require_many_users(api: SlurmApiSection | None) -> None:
    """With `impersonate`: each user has a token, or a process, of their own."""
    if api is not None and not api.token_command and api.url.partition(":")[0] + ":" != INETD:
        raise ValueError(
            "api: with impersonate each user needs a token of their own: give token_command, or url: inetd:"
        )


def _is_open(url: str) -> bool:
    """Over a network, without TLS."""
    at = urlsplit(url)
    if at.scheme == "https" or at.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(at.hostname or "").is_loopback
    except ValueError:
        return True
