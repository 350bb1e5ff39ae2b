"""Buckets of S3, and of what speaks its protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from windlass.base.errors import InvalidConfig, StorageDenied
from windlass.storage.buckets.bucket import (
    Bucket,
    client_options,
    is_http_url,
    prefix_of,
    quoted,
    require_obstore,
    required,
    retry_config,
    shown_url,
)
from windlass.storage.buckets.objects import ObjectStorage
from windlass.storage.buckets.problems import BucketPlace
from windlass.storage.patience import Patience

if TYPE_CHECKING:
    from obstore.store import S3Config, S3CredentialProvider, S3Store

_HOST_NAME = re.compile(r"[A-Za-z0-9-]+")
DEFAULT_REGION = "us-east-1"
_NATIVE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""With one of these in the environment obstore logs in by itself."""


def open_s3(
    config: Mapping[str, Any], environ: Mapping[str, str], patience: Patience
) -> ObjectStorage:
    require_obstore("s3")
    from obstore.store import S3Store

    name, prefix = required(config, "bucket"), prefix_of(config)
    endpoint = _endpoint(config, environ)
    source, provider, region = _credentials(config, environ)
    options = client_options(patience, environ, endpoint)
    known = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or region
    settings: S3Config = {
        "region": known or (DEFAULT_REGION if endpoint else _region_of(name, patience))
    }
    if endpoint:
        settings["endpoint"] = endpoint

    def store(more: S3Config) -> S3Store:
        return S3Store(
            name,
            config={**settings, **more},
            client_options=options,
            retry_config=retry_config(patience),
            credential_provider=provider,
        )

    def store_at(key: str) -> S3Store:
        base = f"{endpoint}/{name}" if endpoint else _public_url(name, settings["region"])
        return store(
            {
                "endpoint": f"{base}/{quoted(key)}",
                "virtual_hosted_style_request": True,
                "disable_bulk_delete": True,
            }
        )

    where = f"s3://{name}/{prefix}".rstrip("/") + (f" at {shown_url(endpoint)}" if endpoint else "")
    return ObjectStorage(Bucket(BucketPlace(where, "bucket", source), store({}), prefix, store_at))


def _endpoint(config: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    url = str(config.get("endpoint_url") or "")
    if url and not is_http_url(url):
        raise InvalidConfig(
            ["endpoint_url: must be a URL that begins with https:// or http://"],
            what="checkpoint_storage",
        )
    # The variables of the SDKs of AWS, so that the published client and this one find the same.
    url = url or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    return url.rstrip("/")


def _region_of(bucket: str, patience: Patience) -> str:
    """Amazon tells everybody, in the header of any answer."""
    asked = Request(f"https://s3.amazonaws.com/{quoted(bucket)}", method="HEAD")
    try:
        with urlopen(asked, timeout=patience.connect_s) as answer:  # noqa: S310 - as above
            headers = answer.headers
    except HTTPError as refusal:
        headers = refusal.headers
    except OSError:
        return DEFAULT_REGION
    return headers.get("x-amz-bucket-region") or DEFAULT_REGION


def _public_url(bucket: str, region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    if not _HOST_NAME.fullmatch(
        bucket
    ):  # with a dot: no certificate fits; with more: it would be another host
        return f"https://s3.{region}.{domain}/{quoted(bucket)}"
    return f"https://{bucket}.s3.{region}.{domain}"


def _credentials(
    config: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str, S3CredentialProvider | None, str]:
    """Where they come from, in words; who hands them out (None: obstore finds them); the region that comes along."""
    access, secret = config.get("access_key"), config.get("secret_key")
    if access and secret:
        # As a provider: no session token of the environment is mixed with them.
        return "access_key and secret_key of checkpoint_storage", _Fixed(access, secret), ""
    if access or secret:
        raise InvalidConfig(
            ["access_key and secret_key belong together: set both or none"],
            what="checkpoint_storage",
        )
    if any(environ.get(name) for name in _NATIVE):
        return "the environment", None, ""
    if environ.get("AWS_PROFILE") or _has_profiles(environ):
        return _profile(environ)
    return "the identity of the machine", None, ""


def _has_profiles(environ: Mapping[str, str]) -> bool:
    paths = (
        environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
        environ.get("AWS_CONFIG_FILE") or "~/.aws/config",
    )
    return any(Path(path).expanduser().is_file() for path in paths)


def _profile(environ: Mapping[str, str]) -> tuple[str, S3CredentialProvider | None, str]:
    profile = environ.get("AWS_PROFILE") or "default"
    try:
        import boto3.session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if environ.get("AWS_PROFILE"):
            raise StorageDenied(
                f"the AWS profile {profile} can be read only with the package boto3: install it, or give the keys in "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from None
        return "the identity of the machine", None, ""
    session = boto3.session.Session(profile_name=environ.get("AWS_PROFILE") or None)
    region = session.region_name or ""
    try:
        return f"the AWS profile {profile}", Boto3CredentialProvider(session), region
    except ValueError:  # the file has no credentials
        return "the identity of the machine", None, region


class _Fixed:
    """Credentials of the configuration."""

    def __init__(self, access: str, secret: str) -> None:
        self._access = access
        self._secret = secret

    def __call__(self) -> Any:
        return {
            "access_key_id": self._access,
            "secret_access_key": self._secret,
            "token": None,
            "expires_at": None,
        }
