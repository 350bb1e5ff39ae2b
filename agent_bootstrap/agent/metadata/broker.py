"""A small HTTP service of the agent: the storage credentials of the machine's role, for tasks that run here.

Each task has a token of its own. SDKs of AWS show it in a header; those of Google know no token, so that it is the
first part of the path. A task that has ended gets nothing any more.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus

from agent_bootstrap.agent.metadata.credentials import AwsRole, GoogleAccount, NoRole
from agent_bootstrap.agent.metadata.http1 import HttpReply
from windlass.base.clock import Clock
from windlass.base.formats.json_types import JsonMapping

log = logging.getLogger(__name__)

AWS_PATH = "/aws/credentials"
GOOGLE_PATH = "computeMetadata/v1/"
RATE_PER_S = 5.0
BURST = 200.0
"""As many processes of one task may ask at once."""


class TaskTokens:
    """Made of the agent's own secret: they need no storage, and are good after a restart of the agent."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"storage credentials of tasks\0" + secret.encode()).digest()

    def of(self, container_id: str) -> str:
        mac = hmac.new(self._key, container_id.encode(), hashlib.sha256).hexdigest()
        return f"{container_id}~{mac}"

    def container(self, token: str) -> str | None:
        """Whose it is. None: nobody's."""
        container_id = token.partition("~")[0]
        is_good = hmac.compare_digest(token.encode(), self.of(container_id).encode())
        return container_id if is_good else None


class Rates:
    """How often each task may ask."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, container_id: str) -> bool:
        """False: it has asked too often."""
        now = self._clock.monotonic()
        at, left = self._left.get(container_id, (now, BURST))
        left = min(BURST, left + (now - at) * RATE_PER_S)
        self._left[container_id] = (now, max(0.0, left - 1))
        return left >= 1

    def keep_only(self, is_running: Callable[[str], bool]) -> None:
        self._left = {id_: kept for id_, kept in self._left.items() if is_running(id_)}


class Broker:
    """What is answered. `is_running`: whether a container of that id is here and has not ended."""

    def __init__(
        self,
        role: AwsRole | GoogleAccount,
        tokens: TaskTokens,
        is_running: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        self._role = role
        self._tokens = tokens
        self._is_running = is_running
        self._rates = Rates(clock)

    async def answer(self, method: str, target: str, headers: Mapping[str, str]) -> HttpReply:
        """`headers`: names in lower case."""
        if method != "GET":
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered")
        path, _, query = target.partition("?")
        try:
            if isinstance(self._role, AwsRole):
                return await self._aws(self._role, path, headers)
            return await self._google(self._role, path, query, headers)
        except NoRole as error:
            return refusal(HTTPStatus.NOT_FOUND, str(error))
        except OSError as error:
            log.warning("no credentials for a task: %s", error)
            words = f"the metadata service of this machine gives no credentials: {error}"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, words)

    async def _aws(self, role: AwsRole, path: str, headers: Mapping[str, str]) -> HttpReply:
        if path != AWS_PATH:
            return refusal(HTTPStatus.NOT_FOUND, f"only {AWS_PATH} is answered")
        token = headers.get("authorization", "")
        return self._refused(token) or _json(await role.credentials())

    async def _google(
        self, account: GoogleAccount, path: str, query: str, headers: Mapping[str, str]
    ) -> HttpReply:
        if headers.get("metadata-flavor") != "Google":
            return refusal(HTTPStatus.FORBIDDEN, "the header Metadata-Flavor: Google is missing")
        if path == "/":  # SDKs look whether this is a machine of Google
            return _text("")
        token, _, rest = path[1:].partition("/")
        if refused := self._refused(token):
            return refused
        about = await account.account()
        wanted = rest.removeprefix(GOOGLE_PATH).strip("/")
        match wanted.replace(f"/{about['email']}", "/default", 1):
            case "instance/service-accounts/default" if "recursive=true" in query:
                return _json(about)
            case "instance/service-accounts/default/token":
                return _json(await account.token())
            case "instance/service-accounts/default/email":
                return _text(str(about["email"]))
            case "instance/service-accounts/default/scopes":
                return _text("".join(f"{scope}\n" for scope in about["scopes"]))
            case "project/project-id":
                return _text(await account.project())
        return refusal(HTTPStatus.NOT_FOUND, "tasks get credentials for storage, nothing else")

    def _refused(self, token: str) -> HttpReply | None:
        container_id = self._tokens.container(token)
        if container_id is None:
            return refusal(HTTPStatus.FORBIDDEN, "not the token of a task of this machine")
        if not self._is_running(container_id):
            self._rates.keep_only(self._is_running)
            return refusal(HTTPStatus.FORBIDDEN, "the task has ended")
        if not self._rates.spend(container_id):
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, "asked too often: keep credentials")
        return None


def refusal(status: int, words: str) -> HttpReply:
    return HttpReply(
        int(status), json.dumps({"message": words}).encode(), _headers("application/json")
    )


def _json(document: JsonMapping) -> HttpReply:
    return HttpReply(200, json.dumps(document).encode(), _headers("application/json"))


def _text(text: str) -> HttpReply:
    return HttpReply(200, text.encode(), _headers("application/text"))


def _headers(kind: str) -> dict[str, str]:
    """Clients of Google take no answer without the first one."""
    return {"Metadata-Flavor": "Google", "Content-Type": kind}
