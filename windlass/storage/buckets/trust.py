"""Which addresses are given the identity of this machine: its cloud keys, its role, a bearer token.

A checkpoint's configuration was written by somebody else, who chooses `endpoint_url` or `account_url`. Whoever reads
the checkpoint without keys of that configuration logs in as himself, so the address must be one that he trusts: the
provider's own, one of his own environment, or one that he names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from windlass.base.errors import StorageDenied

_PATH = r"(?::443)?(?:/[\w./~%-]*)?"
"""Nothing that one parser of URLs reads as a part of the host and another does not."""
_REGION = r"[a-z]{2,4}(?:-[a-z]+)+-\d+"
_AMAZON = re.compile(
    # Names of load balancers and machines end in amazonaws.com, too, and belong to their tenants.
    r"https://(?:[a-z0-9.-]+\.)?"
    rf"(?:s3|s3-accelerate(?:\.dualstack)?|s3-{_REGION}|s3(?:-fips)?(?:\.dualstack)?\.{_REGION})"
    rf"\.amazonaws\.(?:com|com\.cn|eu){_PATH}",
    re.ASCII | re.IGNORECASE,
)
_AZURE = re.compile(
    r"https://[a-z0-9-]+\.(?:"
    r"(?:blob|dfs)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
    rf"|z\d+\.(?:blob|dfs)\.storage\.azure\.net){_PATH}",
    re.ASCII | re.IGNORECASE,
)


def is_amazon(url: str) -> bool:
    return _AMAZON.fullmatch(url) is not None


def is_azure(url: str) -> bool:
    return _AZURE.fullmatch(url) is not None


def require_trusted(
    section: Mapping[str, Any], trusted: Collection[str], environ: Mapping[str, str]
) -> None:
    """Raises UntrustedAddress for a section of `checkpoint_storage` whose address may not have this machine's identity.

    `trusted`: hosts, or host:port where the port is not the usual one.
    """
    url = _asking(section, environ)
    if url and (host := _host(url)) not in trusted:
        raise UntrustedAddress(host)


class UntrustedAddress(StorageDenied):
    """An address that would be sent this machine's identity."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the configuration of the checkpoint has the storage at {host}, without keys: your own cloud credentials "
            "are sent only to the provider and to the cluster's storage. If you trust that host with them: "
            f"--trust-host {host}"
        )
        self.host = host


def _asking(section: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The address chosen by the section's author that our identity would be sent to; empty: none."""
    match section.get("type"):
        case "s3":
            url = str(section.get("endpoint_url") or "")
            ours = (environ.get("AWS_ENDPOINT_URL_S3"), environ.get("AWS_ENDPOINT_URL"))
            has_keys = section.get("access_key") and section.get("secret_key")
            return "" if has_keys or url in ours or is_amazon(url) else url
        case "azure":
            url = str(section.get("account_url") or "")
            has_keys = section.get("credential") or "sig=" in urlsplit(url).query
            return "" if has_keys or is_azure(url) else url
        case _:
            return ""


def _host(url: str) -> str:
    """As the address has it, without a password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    usual = {"https": ":443", "http": ":80"}.get(parts.scheme.lower(), "")
    return host.removesuffix(usual) if usual else host
