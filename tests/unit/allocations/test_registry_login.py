"""What an agent logs in to a registry with, from `registry_auth`."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agent_bootstrap.protocol import RegistryCredentials
from master.allocations.cluster_tasks import registry_login
from master.core.expconf.models.environment import RegistryAuth


@pytest.mark.parametrize(
    ("auth", "login"),
    [
        ({"username": "u", "password": "p"}, RegistryCredentials(username="u", password="p")),
        (
            {"username": "u", "password": "p", "serveraddress": "r.example"},
            RegistryCredentials(username="u", password="p", server="r.example"),
        ),
        (
            {"auth": base64.b64encode(b"u:p:q").decode()},
            RegistryCredentials(username="u", password="p:q"),
        ),
        (
            {"auth": base64.b64encode(b"x:y").decode(), "username": "u", "password": "p"},
            RegistryCredentials(username="u", password="p"),
        ),
        ({"auth": "not base64!"}, RegistryCredentials()),
        ({"identitytoken": "i"}, RegistryCredentials(identity_token="i")),
        ({"registrytoken": "r", "email": "e"}, RegistryCredentials(registry_token="r")),
    ],
)
def test_every_form_of_registry_auth(auth: dict[str, Any], login: RegistryCredentials) -> None:
    assert registry_login(RegistryAuth(**auth)) == login
