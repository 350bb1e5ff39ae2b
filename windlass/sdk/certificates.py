"""Whom this user trusts to be which master.

DET_MASTER_CERT_FILE says it, or else `certs.json` of the published client (`~/.config/determined`): certificates by URL
that the user has accepted. Both clients read and write it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import InvalidState
from windlass.base.files import write_atomic
from windlass.base.tls.fingerprints import certificates_in, fingerprint_of, labelled, to_pem
from windlass.base.tls.trust import NO_VERIFY, Trust, read_certificates
from windlass.base.tls.words import TlsProblem, TlsRefusal

FILE_VARIABLE = "DET_MASTER_CERT_FILE"
NAME_VARIABLE = "DET_MASTER_CERT_NAME"


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """PEM chains by the canonical URL of a master."""

    path: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> CertificateStore:
        given = environ.get("DET_DEBUG_CONFIG_PATH")
        if given:
            return cls(Path(given) / "certs.json")
        base = environ.get("XDG_CONFIG_HOME")
        return cls((Path(base) if base else Path.home() / ".config") / "determined" / "certs.json")

    def get(self, url: str) -> str:
        """Empty: none. Raises InvalidState for a file that is damaged."""
        return self._read().get(url, "")

    def put(self, url: str, pem: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked():
            content = {**self._read(), url: pem}
            write_atomic(self.path, json.dumps(content, indent=4, sort_keys=True).encode())

    def _read(self) -> dict[str, str]:
        try:
            content = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            content = None
        if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
            raise InvalidState(f"{self.path} is damaged: delete it, and accept certificates again")
        return content

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """By the lock of the published client."""
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def trust_for(url: str, environ: Mapping[str, str]) -> Trust:
    """Besides the authorities of this machine. Raises InvalidArgument, InvalidState."""
    if not url.startswith("https:"):
        return Trust()
    given = environ.get(FILE_VARIABLE)
    if not given:
        return Trust(pem=CertificateStore.of_user(environ).get(url))
    if given.lower() == NO_VERIFY:
        return Trust(verify=False)
    return Trust(pem=read_certificates(Path(given), FILE_VARIABLE))


def may_be_accepted(refusal: TlsRefusal, environ: Mapping[str, str]) -> bool:
    """Whether to ask the user: not if he has said already whom he trusts."""
    return (
        refusal.problem is TlsProblem.UNKNOWN
        and bool(refusal.chain)
        and not environ.get(FILE_VARIABLE)
    )


def question(url: str, refusal: TlsRefusal, trusted: str) -> str:
    """`trusted`: what was accepted for this URL before."""
    shown = "\n".join(f"  {line}" for line in labelled([*map(fingerprint_of, refusal.chain)]))
    before = ""
    if trusted:
        old = ", ".join(map(fingerprint_of, certificates_in(trusted.encode())))
        before = f"It is NOT the certificate that you have accepted before ({old}).\n"
    return (
        f"The master at {url} shows a certificate that nobody trusted here has signed:\n{shown}\n{before}"
        "Compare them with what `windlass master certificate` prints on the master's machine.\n"
        "Trust this certificate from now on?"
    )


def accept(url: str, refusal: TlsRefusal, environ: Mapping[str, str]) -> Trust:
    pem = "".join(map(to_pem, refusal.chain))
    CertificateStore.of_user(environ).put(url, pem)
    return Trust(pem=pem)


def refused_in_words(
    url: str, refusal: TlsRefusal, environ: Mapping[str, str], trusted: str
) -> str:
    sentence = f"Cannot connect to master at {url}: {refusal.sentence}"
    match refusal.problem:
        case TlsProblem.NAME:
            return f"{sentence}: call it by one of these names, or set {NAME_VARIABLE} to one"
        case TlsProblem.NO_TLS:
            return f"{sentence}: write http:// instead of https://"
        case TlsProblem.UNKNOWN if file := environ.get(FILE_VARIABLE):
            return f"{sentence}: {FILE_VARIABLE}={file} holds no certificate that signs it"
        case TlsProblem.UNKNOWN:
            changed = "; it is NOT the one that you have accepted before" if trusted else ""
            return (
                f"{sentence}{changed}. To trust it, run `det -m {url} user login` on a terminal, "
                f"or set {FILE_VARIABLE} to a file that `windlass master certificate --pem` has printed"
            )
        case _:
            return sentence
