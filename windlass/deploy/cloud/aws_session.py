"""A client of boto3 for the person who deploys. boto3 is of the extra `aws`, and imported only here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windlass.deploy.cloud.failures import failure, missing


class AwsSession:
    def __init__(self, *, region: str, profile: str = "") -> None:
        try:
            import boto3
            from botocore import exceptions
        except ImportError:
            raise missing("aws") from None
        self.refused: type[Exception] = exceptions.ClientError
        """An answer of AWS that is an error; `code_of` names it."""
        self._errors = (exceptions.BotoCoreError, exceptions.ClientError)
        with self.doing("log in to AWS"):
            self._session = boto3.Session(profile_name=profile or None, region_name=region or None)

    def client(self, service: str) -> Any:
        with self.doing(f"reach {service}"):
            return self._session.client(service)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Errors inside become ProviderError: "Cannot `what`: ..."."""
        try:
            yield
        except self._errors as error:
            raise failure(what, error) from None


def code_of(error: Any) -> str:
    return str(error.response["Error"]["Code"])
