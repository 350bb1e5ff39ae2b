"""A client of boto3 for the person who deploys, and the region. boto3 is of the extra `aws`, and imported only here."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Any

from windlass.deploy.cloud.session import CloudSession, missing


class AwsSession(CloudSession):
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


def code_of(error: Any) -> str:
    return str(error.response["Error"]["Code"])


def region_of(profile: str | None) -> str | None:
    """Where none was named: as AWS's own tools, of the environment, else of the profile in the shared file."""
    environment = os.environ
    named = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    return named or _of_profile(profile or environment.get("AWS_PROFILE") or "default")


def _of_profile(profile: str) -> str | None:
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    sections = configparser.ConfigParser(interpolation=None)
    try:
        sections.read(path)
    except configparser.Error:
        return None
    name = "default" if profile == "default" else f"profile {profile}"
    return sections.get(name, "region", fallback=None)
