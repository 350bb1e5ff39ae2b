"""Whom this agent takes for its master, and what its tasks must know to do the same."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from agent_bootstrap.agent.options import AgentOptions
from windlass.base.errors import InvalidArgument
from windlass.base.tls.presented import presented_chain
from windlass.base.tls.trust import CertificateRefused, Trust, pinned, read_certificates
from windlass.base.tls.words import TlsProblem, refusal_of

WaysOut = Mapping[TlsProblem, str]
_NO_TLS = "write http:// if the master has no certificate, and look whether the port is right"
_FINGERPRINT = "the fingerprint that `windlass master certificate` prints on the master's machine"
BY_KEYS: WaysOut = {
    TlsProblem.UNKNOWN: f"set security.tls.cert_fingerprint to {_FINGERPRINT}, or security.tls.master_cert to a file "
    "with the authority's certificate",
    TlsProblem.NAME: "call the master by one of these names, or set security.tls.master_cert_name to one",
    TlsProblem.NO_TLS: _NO_TLS,
}
"""For an agent, which has an agent.yaml."""
BY_OPTIONS: WaysOut = {
    TlsProblem.UNKNOWN: f"give --cert-fingerprint with {_FINGERPRINT}, or --master-cert with a file of the authority's "
    "certificate",
    TlsProblem.NAME: "call the master by one of these names, or give one with --master-cert-name",
    TlsProblem.NO_TLS: _NO_TLS,
}
"""For whoever types `windlass agent join`."""


def context_for(options: AgentOptions) -> ssl.SSLContext:
    """For one connection. Blocks: of a pinned master the certificates are asked for first, on a connection of its own.

    Raises CertificateRefused, OSError.
    """
    tls = options.security.tls
    if tls.skip_verify:
        return Trust(verify=False).context()
    if tls.cert_fingerprint:
        host, port = _place(options)
        chain = presented_chain(host, port, name=tls.master_cert_name)
        return pinned(chain, tls.cert_fingerprint, f"{host}:{port}").context()
    try:
        return Trust(pem=given_certificates(options), alone=tls.master_cert is not None).context()
    except (InvalidArgument, ValueError) as error:
        raise CertificateRefused(str(error)) from None


def given_certificates(options: AgentOptions) -> str:
    """What the operator gave to trust, PEM. Raises InvalidArgument."""
    path = options.security.tls.master_cert
    return "" if path is None else read_certificates(path, "security.tls.master_cert")


def why_refused(error: BaseException, options: AgentOptions, ways_out: WaysOut = BY_KEYS) -> str:
    """A refusal in words, with the way out; empty if it is not about TLS. Blocks."""
    if isinstance(error, CertificateRefused):
        return error.message
    host, port = _place(options)
    refusal = refusal_of(error, host, port, name=options.security.tls.master_cert_name)
    if refusal is None:
        return ""
    way_out = ways_out.get(refusal.problem)
    return f"{refusal.sentence}: {way_out}" if way_out else refusal.sentence


def task_certificate_name(options: AgentOptions) -> str:
    """By which tasks check the master, where it is not the host that they call."""
    host, _ = _place(options)
    called = urlsplit(options.container_url).hostname
    return options.security.tls.master_cert_name or (host if called != host else "")


def _place(options: AgentOptions) -> tuple[str, int]:
    parts = urlsplit(options.url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
