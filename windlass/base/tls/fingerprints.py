"""Fingerprints of certificates: what an operator compares, and what an agent is told to trust.

Canonical is `sha256:` and 64 small hexadecimal digits, of a certificate's DER form. What other programs print
(`openssl x509 -fingerprint -sha256`, browsers, the published client) is read, too. In a join line:

    windlass agent join https://master:8443 --token T --cert-fingerprint sha256:2f6c...
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence

from windlass.base.errors import InvalidArgument

PREFIX = "sha256:"
_HEX = re.compile(r"[0-9a-f]{64}")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


def parse_fingerprint(text: str) -> str:
    """The canonical form. Raises InvalidArgument."""
    word = text.strip().lower()
    digits = word.removeprefix("sha256 fingerprint=").removeprefix(PREFIX).replace(":", "")
    if _HEX.fullmatch(digits) is None:
        raise InvalidArgument(
            f'"{text}" is not a fingerprint: expected sha256: and 64 hexadecimal digits, as '
            "`openssl x509 -fingerprint -sha256 -noout -in FILE` prints them"
        )
    return PREFIX + digits


def fingerprint_of(der: bytes) -> str:
    return PREFIX + hashlib.sha256(der).hexdigest()


def labelled(fingerprints: Sequence[str]) -> list[str]:
    """Those of a chain as a master serves it, for people to compare: the same words wherever they are shown.

    The last is the authority's, which stays the same when the master gets a new certificate.
    """
    if len(fingerprints) < 2:
        return [f"certificate: {each}" for each in fingerprints]
    own, *between, authority = fingerprints
    signers = [f"intermediate: {each}" for each in between]
    return [f"certificate: {own}", *signers, f"authority: {authority}"]


def certificates_in(pem: bytes) -> tuple[bytes, ...]:
    """The DER form of each certificate, in the order of the text. Raises ValueError for one that is not base64."""
    try:
        return tuple(
            base64.b64decode(b"".join(body.split()), validate=True) for body in _PEM.findall(pem)
        )
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def to_pem(der: bytes) -> str:
    body = base64.encodebytes(der).decode().replace("\n", "")
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
