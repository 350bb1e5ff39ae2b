"""How a command line says which certificate of the master to trust."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOptions:
    cert_fingerprint: Annotated[
        str | None,
        typer.Option(
            help="Trust only the certificate with this fingerprint (sha256:...): the master's or its authority's.",
            show_default=False,
        ),
    ] = None
    master_cert: Annotated[
        Path | None,
        typer.Option(help="Trust only the certificates in this file.", show_default=False),
    ] = None
    master_cert_name: Annotated[
        str | None,
        typer.Option(help="Expect this name in the master's certificate.", show_default=False),
    ] = None

    def keys(self) -> dict[str, str]:
        """Those of `security.tls` that were given."""
        found = {
            "cert_fingerprint": self.cert_fingerprint,
            "master_cert": None if self.master_cert is None else str(self.master_cert.absolute()),
            "master_cert_name": self.master_cert_name,
        }
        return {key: value for key, value in found.items() if value}


NO_TRUST = TrustOptions()
"""Nothing is given: the authorities of this machine."""
