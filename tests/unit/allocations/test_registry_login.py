"""What an agent logs in to a registry with, from `registry_auth`."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agent_bootstrap.protocol import Login
from master.allocations.cluster_tasks import registry_login
from master.core.expconf.environment import RegistryAuth


@pytest.mark.parametrize(
    ("auth", "login"),
    [
        ({"username": "u", "password": "p"}, Login(username="u", password="p")),
        (
            {"username": "u", "password": "p", "serveraddress": "r.example"},
            Login(username="u", password="p", server="r.example"),
        ),
        (
            {"auth": base64.b64encode(b"u:p:q").decode()},
            Login(username="u", password="p:q"),
        ),
        (
            {"auth": base64.b64encode(b"x:y").decode(), "username": "u", "password": "p"},
            Login(username="u", password="p"),
        ),
        ({"auth": "not base64!"}, Login()),
        ({"identitytoken": "i"}, Login(identity_token="i")),
        ({"registrytoken": "r", "email": "e"}, Login(registry_token="r")),
    ],
)
def test_every_form_of_registry_auth(auth: dict[str, Any], login: Login) -> None:
    assert registry_login(RegistryAuth(**auth)) == login
