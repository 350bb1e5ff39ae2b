"""Why a TLS connection to the master was refused, in one sentence."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from windlass.base.tls.fingerprints import fingerprint_of, labelled
from windlass.base.tls.presented import names_in, presented_chain

_EXPIRED, _NOT_YET, _NAMES = 10, 9, (62, 64)
"""`X509_V_ERR_...` of OpenSSL: validity, and names or addresses that differ."""
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})


class TlsProblem(Enum):
    UNKNOWN = "unknown"
    """Signed by nobody that is trusted here."""
    NAME = "name"
    VALIDITY = "validity"
    NO_TLS = "no_tls"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsRefusal:
    problem: TlsProblem
    sentence: str
    """What is wrong. What to do depends on who is refused."""
    chain: tuple[bytes, ...] = ()
    """What was presented, DER, if it could be asked for."""


def refusal_of(
    error: BaseException, host: str, port: int, *, name: str = "", ask: bool = True
) -> TlsRefusal | None:
    """None: it is not about TLS. With `ask`, who answers there is asked for names and fingerprint: that blocks."""
    found = _ssl_error(error)
    if found is None:
        return None
    at = f"{host}:{port}"
    if not isinstance(found, ssl.SSLCertVerificationError):
        if found.reason in _NO_TLS:
            return TlsRefusal(problem=TlsProblem.NO_TLS, sentence=f"{at} does not speak TLS")
        return TlsRefusal(
            problem=TlsProblem.OTHER, sentence=f"no TLS connection to {at}: {_text(found)}"
        )
    chain = _chain(host, port, name) if ask else ()
    which = f"the certificate at {at}" + (
        f" ({', '.join(labelled([*map(fingerprint_of, chain)]))})" if chain else ""
    )
    code = found.verify_code
    if code in (_EXPIRED, _NOT_YET):
        state = "has expired" if code == _EXPIRED else "is not valid yet"
        clock = datetime.now(UTC).isoformat(sep=" ", timespec="minutes")
        return TlsRefusal(
            problem=TlsProblem.VALIDITY,
            sentence=f"{which} {state} (the clock here says {clock}): renew it on the master, or set the clock",
            chain=chain,
        )
    if code in _NAMES:
        names = ", ".join(names_in(host, port, chain)) if chain else ""
        return TlsRefusal(
            problem=TlsProblem.NAME,
            sentence=f"{which} is for {names or 'other names'}, not for {name or host}",
            chain=chain,
        )
    return TlsRefusal(
        problem=TlsProblem.UNKNOWN,
        sentence=f"{which} is signed by nobody that is trusted here ({found.verify_message})",
        chain=chain,
    )


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    """The first one in the chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ssl.SSLError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _chain(host: str, port: int, name: str) -> tuple[bytes, ...]:
    try:
        return presented_chain(host, port, name=name)
    except OSError:
        return ()


def _text(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
