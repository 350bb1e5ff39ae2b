"""From `registry_auth` of a configuration to what an agent logs in with."""

from __future__ import annotations

import base64
import binascii

from agent_bootstrap.protocol import Login
from master.core.expconf.environment import RegistryAuth


def registry_login(auth: RegistryAuth) -> Login:
    """`auth`, as in Docker's config.json, stands for user name and password where these are not given."""
    username, password = auth.username or "", auth.password or ""
    if auth.auth and not (username or password):
        username, password = _decoded(auth.auth)
    return Login(
        server=auth.serveraddress or "",
        username=username,
        password=password,
        identity_token=auth.identitytoken or "",
        registry_token=auth.registrytoken or "",
    )


def _decoded(text: str) -> tuple[str, str]:
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    username, _, password = decoded.partition(":")
    return username, password.rstrip("\0")
