"""The few REST calls of a machine that joins or leaves. Tokens and credentials travel in headers."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from agent_bootstrap.agent.connection.master_trust import BY_KEYS, WaysOut, context_for, why_refused
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.bounds import error_words
from agent_bootstrap.protocol import CREDENTIAL_HEADER, PROTOCOL_VERSION
from windlass.base.errors import PermissionDenied, WindlassError
from windlass.base.kept_connections import CLIENT_KEEPS_S
from windlass.base.packages import VERSION

TIMEOUT_S = 20.0
PATH = "/api/v1/windlass/join"
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


class MasterUnreachable(WindlassError):
    """Nothing, or no master of ours, answers at the URL."""

    code = "master_unreachable"


class MasterRefused(PermissionDenied):
    """The master does not want it, and says why."""


class AgentStatus(BaseModel):
    """What the master says of an agent."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)

    agent_id: str
    pool: str
    member: bool
    connected: bool
    slots: int
    containers: int
    refused: str
    cluster_id: str
    cluster_name: str
    master_version: str


class MasterCalls:
    """To one master, as one agent. All raise MasterUnreachable and MasterRefused."""

    def __init__(self, options: AgentOptions, credential: str, ways_out: WaysOut = BY_KEYS) -> None:
        """`ways_out`: what may be done about a certificate that is not trusted."""
        self._options = options
        self._credential = credential
        self._ways_out = ways_out
        self._client: httpx2.Client | None = None

    def join(self, token: str, pool: str) -> AgentStatus:
        """Bind the credential to the agent id. `pool` empty: that of the token."""
        options = self._options
        body = {
            "agentId": options.agent_id,
            "version": VERSION,
            "protocol": PROTOCOL_VERSION,
            "pool": pool,
            "instanceId": options.instance_id,
        }
        return self._call("POST", PATH, body=body, token=token)

    def standing(self, since: datetime | None = None) -> AgentStatus:
        query = {"agentId": self._options.agent_id}
        if since is not None:
            query["since"] = since.isoformat()
        return self._call("GET", PATH, query=query)

    def leave(self, *, stop: bool) -> AgentStatus:
        """No more work; once nothing runs here, the agent is forgotten. `stop`: end what runs."""
        body = {"agentId": self._options.agent_id, "stop": stop}
        return self._call("POST", f"{PATH}/leave", body=body)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def __enter__(self) -> MasterCalls:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        token: str = "",
    ) -> AgentStatus:
        headers = {CREDENTIAL_HEADER: self._credential}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            response = self._connected().request(
                method, path, json=body, params=query, headers=headers
            )
        except (httpx2.TransportError, httpx2.InvalidURL, OSError, PermissionDenied) as error:
            raise MasterUnreachable(self._unreachable(error)) from None
        if not response.is_success:
            raise self._refusal(response)
        try:
            return AgentStatus.model_validate_json(response.content)
        except ValidationError:
            raise MasterUnreachable(
                f"{self._options.url} answers, but not as a Windlass master does: is the URL right?"
            ) from None

    def _connected(self) -> httpx2.Client:
        if self._client is None:
            url = self._options.url
            verify: ssl.SSLContext | bool = (
                context_for(self._options) if url.startswith("https:") else True
            )
            self._client = httpx2.Client(
                base_url=url,
                timeout=httpx2.Timeout(TIMEOUT_S),
                limits=httpx2.Limits(keepalive_expiry=CLIENT_KEEPS_S),
                verify=verify,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    def _unreachable(self, error: Exception) -> str:
        if tls := why_refused(error, self._options, self._ways_out):
            return tls
        reason = _ERRNO.sub("", str(error)) or type(error).__name__
        return f"Cannot connect to master at {self._options.url}: {reason}"

    def _refusal(self, response: httpx2.Response) -> WindlassError:
        said, of_master = error_words(response.content)
        if response.status_code == 404 or (response.status_code == 501 and of_master):
            return MasterUnreachable(
                f"the master at {self._options.url} does not know `windlass agent join`: it is of an earlier version "
                f"than this {VERSION}. Update it, or install its version here"
            )
        if of_master:
            return MasterRefused(said)
        return MasterUnreachable(
            f"{self._options.url} answered HTTP {response.status_code}, not as a Windlass master does: "
            f"{said or 'is the URL right?'}"
        )
