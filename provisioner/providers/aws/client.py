"""Calls to AWS: one attempt each, in threads of their own. Retries and rates are the provisioner's.

boto3 is imported when the first call is made.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.errors import Refusal
from windlass.base.formats.json_types import JsonMapping

log = logging.getLogger(__name__)

THREADS = 8
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 25
"""Below the deadline of a call, so that its thread is free again when that has passed."""
MAX_PAGES = 1_000
PRICES_IN = "us-east-1"
"""The region that has the price list of all."""
SESSION_NAME = "windlass"

_R = TypeVar("_R")


class AwsError(Exception):
    """What a service of AWS answered instead of a result."""

    def __init__(self, code: str, message: str, *, operation: str = "", status: int = 0) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.operation = operation
        self.status = status


class AwsClient:
    """The services of one account in one region."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account
        self._threads: ThreadPoolExecutor | None = None
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()

    def open(self) -> None:
        self._threads = self._threads or ThreadPoolExecutor(
            THREADS, thread_name_prefix=self._account.name
        )

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        self._session, self._clients = None, {}

    async def call(self, service: str, operation: str, **parameters: Any) -> JsonMapping:
        """`operation` as boto3 calls it. Raises `AwsError`, `Refusal` for credentials, `OSError` if nobody knows."""

        def call() -> JsonMapping:
            made = getattr(self._client(service), operation)
            reply: JsonMapping = _translated(lambda: made(**parameters), operation)
            return reply

        if self._threads is None:
            raise ConnectionError(f"{self._account.name} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def pages(
        self, service: str, operation: str, **parameters: Any
    ) -> AsyncIterator[JsonMapping]:
        """All of them, or an error: half a list is none."""
        for _ in range(MAX_PAGES):
            page = await self.call(service, operation, **parameters)
            yield page
            token = page.get("NextToken")
            if not token:
                return
            parameters["NextToken"] = token
        raise ConnectionError(f"{operation} has more than {MAX_PAGES} pages")

    def _client(self, service: str) -> Any:
        with self._making:
            if service not in self._clients:
                self._clients[service] = _translated(lambda: self._made(service), service)
            return self._clients[service]

    def _made(self, service: str) -> Any:
        if self._session is None:
            self._session = _session(self._account)
        return self._session.client(
            service,
            region_name=PRICES_IN if service == "pricing" else None,
            endpoint_url=self._account.endpoint_url or None,
            config=_config(),
        )


def own_region() -> str | None:
    """Of the machine that this runs on, as its metadata service says. Blocking, for a second at most."""
    from botocore.utils import InstanceMetadataRegionFetcher

    found: str | None = InstanceMetadataRegionFetcher(timeout=1, num_attempts=1).retrieve_region()
    return found


def _session(account: AwsAccount) -> Any:
    """Credentials as they are found in the usual places; with a role, those of the role, renewed before they end."""
    import boto3

    if not account.role:
        return boto3.Session(botocore_session=_botocore_session(), region_name=account.region)
    from botocore.credentials import (
        DeferredRefreshableCredentials,
        create_assume_role_refresher,
    )

    own = boto3.Session(botocore_session=_botocore_session(), region_name=account.region)
    sts = own.client("sts", endpoint_url=account.endpoint_url or None, config=_config())
    wanted = {"RoleArn": account.role, "RoleSessionName": SESSION_NAME}
    if account.external_id:
        wanted["ExternalId"] = account.external_id
    session = _botocore_session()
    session._credentials = DeferredRefreshableCredentials(
        refresh_using=create_assume_role_refresher(sts, wanted), method="sts-assume-role"
    )
    return boto3.Session(botocore_session=session, region_name=account.region)


def _config() -> Any:
    from botocore.config import Config

    return Config(
        # `max_attempts: 1` would still mean one retry.
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=THREADS,
        user_agent_extra="windlass",
    )


def _botocore_session() -> Any:
    import botocore.session

    session = botocore.session.get_session()
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> Any:
    """EC2's model takes a good part of a second and tens of megabytes: once for all accounts."""
    from botocore.loaders import create_loader

    return create_loader()


def _translated(call: Callable[[], _R], operation: str) -> _R:
    """boto3's many errors as four."""
    from botocore import exceptions as botocore
    from botocore.parsers import ResponseParserError

    try:
        return call()
    except botocore.ClientError as error:
        said = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise AwsError(
            said.get("Code", ""), said.get("Message", ""), operation=operation, status=status
        ) from None
    except (botocore.HTTPClientError, botocore.ConnectionError) as error:
        raise ConnectionError(_text(error)) from None
    except (
        botocore.NoCredentialsError,
        botocore.PartialCredentialsError,
        botocore.CredentialRetrievalError,
        botocore.TokenRetrievalError,
        botocore.ProfileNotFound,
        botocore.SSOError,
    ) as error:
        raise Refusal(
            BlockKind.AUTH,
            f"no credentials for AWS: {_text(error)}; give the master a role, a profile or keys "
            "(see docs/aws.md), and check them with windlass master check --cloud",
        ) from None
    except ResponseParserError as error:
        raise AwsError("InternalError", _text(error), operation=operation, status=500) from None
    except botocore.BotoCoreError as error:
        raise AwsError(type(error).__name__, _text(error), operation=operation) from None


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
