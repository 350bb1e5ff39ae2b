"""User data of a machine: a small script that fetches everything else from the master. Pure.

User data is no secret place: any process on the machine and many people of an account read it. It holds the launch
token, which is good for the machines of one launch until each has joined, and nothing else that must not be known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

from agent_bootstrap.agent.metadata.kinds import Cloud
from windlass.base.errors import InvalidConfig

MAX_BYTES = 8 * 1024
"""AWS takes 16 KB; half of it is left to what a site may put around this."""
PATIENCE_S = 1800
BOOT_PATH = "/api/v1/windlass/boot"
_TOKEN = re.compile(r"[A-Za-z0-9._=-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDataInputs:
    """What the script of one launch is made of. All of its machines have the same."""

    cloud: Cloud
    cluster_id: str
    pool: str
    intent_id: str
    master_url: str
    """http(s)://host:port, as the machines reach the master."""
    launch_token: str = field(repr=False)
    master_cert: str = ""
    """PEM: the certificate of the master, or of what signs it. Empty: the authorities that the image knows."""
    master_cert_name: str = ""
    """The name in the master's certificate. Empty: its host."""
    patience_s: int = PATIENCE_S
    """A machine that has found no master for so long ends itself."""


def user_data(inputs: UserDataInputs) -> str:
    """The script, ASCII and at most `MAX_BYTES`. The same inputs make the same script. Raises InvalidConfig."""
    url, connect_to = _addresses(inputs)
    if not _TOKEN.fullmatch(inputs.launch_token):
        raise InvalidConfig(["launch_token: not a join token of a master"])
    settings = {
        "CLOUD": inputs.cloud.value,
        "POOL": inputs.pool,
        "LAUNCH": f"{inputs.intent_id} of cluster {inputs.cluster_id}",
        "MASTER_URL": inputs.master_url.rstrip("/"),
        "CERT_NAME": inputs.master_cert_name,
        "BOOT_URL": f"{url}{BOOT_PATH}",
        "CONNECT_TO": connect_to,
        "PATIENCE_S": str(inputs.patience_s),
        "TOKEN": inputs.launch_token,
        "MASTER_CERT": inputs.master_cert.strip() + "\n" if inputs.master_cert else "",
    }
    lines = [f"{name}={quote(_ascii(value))}" for name, value in settings.items()]
    text = "\n".join(["#!/bin/sh", *lines, _stub()])
    if len(text) > MAX_BYTES:
        raise InvalidConfig(
            [
                f"user data of pool {inputs.pool} has {len(text)} bytes of {MAX_BYTES}: the master's certificate takes "
                f"{len(settings['MASTER_CERT'])}; put fewer certificates into the file of security.tls.cert"
            ]
        )
    return text


def _addresses(inputs: UserDataInputs) -> tuple[str, str]:
    """The URL by the name in the certificate, and what curl connects to in its place; empty: the name itself."""
    try:
        parts = urlsplit(inputs.master_url)
        scheme = parts.scheme
        port = parts.port or {"http": 80, "https": 443}[scheme]
        host = parts.netloc.removesuffix(f":{parts.port}")
    except (KeyError, ValueError):
        scheme, port, host = "", 0, ""
    name = inputs.master_cert_name or host
    problems = []
    if not _HOST.fullmatch(host):
        problems.append(
            f'master_url: "{inputs.master_url}" is not the URL of a master: write https://host:port'
        )
    elif not _HOST.fullmatch(name):
        problems.append(f'master_cert_name: "{name}" is not the name of a host')
    if problems:
        raise InvalidConfig(problems)
    url = f"{scheme}://{name}:{port}"
    return url, "" if name == host else f"{name}:{port}:{host}:{port}"


def _ascii(value: str) -> str:
    """Names of pools may be in any script; what runs first on a machine has no locale."""
    return value.encode("ascii", "replace").decode().replace("\0", "?")


def _stub() -> str:
    return Path(__file__).with_name("stub.sh").read_text(encoding="ascii")
