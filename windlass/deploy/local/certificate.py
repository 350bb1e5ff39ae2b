"""The certificate of a local master: who it is to this user's clients and to the agents beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from windlass.base.files import write_atomic
from windlass.base.tls.fingerprints import certificates_in, fingerprint_of
from windlass.base.tls.trust import Trust
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.options import Options, names_of_host
from windlass.sdk.certificates import FILE_VARIABLE, NAME_VARIABLE, CertificateStore
from windlass.sdk.credentials import open_session
from windlass.sdk.session import Session

ANYBODY = Trust(verify=False)
"""For the question whether somebody answers. Nothing secret is said to them."""

_FILE_OPTION, _NAME_OPTION = "--master-cert", "--master-cert-name"
"""Of `windlass agent run`."""


@dataclass(frozen=True, slots=True)
class ClusterCertificate:
    """What the master serves. `name`: to be expected in it, where that is not the host of its URL."""

    file: Path
    name: str

    @property
    def pem(self) -> str:
        return self.file.read_text()

    @property
    def fingerprint(self) -> str:
        """Of the last in the chain, as `windlass master certificate` prints it."""
        return fingerprint_of(certificates_in(self.pem.encode())[-1])

    @property
    def variables(self) -> dict[str, str]:
        """By which a client trusts it."""
        named = {NAME_VARIABLE: self.name} if self.name else {}
        return {FILE_VARIABLE: str(self.file), **named}

    @property
    def agent_words(self) -> list[str]:
        named = [_NAME_OPTION, self.name] if self.name else []
        return [_FILE_OPTION, str(self.file), *named]

    def session(self, url: str, token: str | None = None) -> Session:
        trust = Trust(pem=self.pem, alone=True)
        return Session(url, token, trust=trust, cert_name=self.name or None)


def without_trust(words: list[str]) -> list[str]:
    """A command of an agent without the options of `agent_words`."""
    kept = list(words)
    for option in (_FILE_OPTION, _NAME_OPTION):
        if option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    return kept


def store(
    options: Options, folder: ClusterFolder, pem: str, names: list[str]
) -> ClusterCertificate:
    """For this user's clients, ours and the published one, and for agents."""
    write_atomic(folder.certificate, pem.encode(), mode=0o644)
    host = urlsplit(options.url).hostname or ""
    usable = [name for name in names if "*" not in name]
    name = "" if host in names or not usable else usable[0]
    write_atomic(folder.certificate_name, name.encode())
    for url in names_of_host(options.url):
        CertificateStore.of_user(os.environ).put(url, pem)
    return ClusterCertificate(folder.certificate, name)


def certificate_of(options: Options, folder: ClusterFolder) -> ClusterCertificate | None:
    """None: plain HTTP, or it was not stored yet."""
    if not options.tls or not folder.certificate.exists():
        return None
    return ClusterCertificate(folder.certificate, folder.certificate_name.read_text())


def session_at(
    url: str, token: str | None, options: Options | None, folder: ClusterFolder
) -> Session:
    """`options`: those of our own master, if it is that."""
    own = certificate_of(options, folder) if options is not None else None
    return open_session(url, os.environ, token) if own is None else own.session(url, token)
