"""`det version`."""

from __future__ import annotations

import os

import typer

from windlass import DETERMINED_VERSION, __version__
from windlass.base.tls.trust import CertificateRefused
from windlass.cli.connect import settings_of
from windlass.cli.output.text import print_fields, print_json
from windlass.sdk.client import Client
from windlass.sdk.credentials import master_url, open_session
from windlass.sdk.wire import Json, MasterUnreachable


def show_version(ctx: typer.Context, as_json: bool) -> None:
    """Works without a master and without a login."""
    url = master_url(settings_of(ctx).master, os.environ)
    master: Json | None = None
    why = ""
    with open_session(url, os.environ) as session:
        try:
            master = Client(session).info()
        except MasterUnreachable:
            master, why = None, f"cannot connect to {url}"
        except CertificateRefused as refused:
            master, why = None, refused.message
    if as_json:
        print_json(
            {"client": __version__, "api": DETERMINED_VERSION, "masterUrl": url, "master": master}
        )
        return
    answer = why if master is None else f"{master.get('version')} at {url}"
    print_fields([("client", __version__), ("API", DETERMINED_VERSION), ("master", answer)])
    if master is not None:
        print_fields([("cluster", master.get("cluster_name") or master.get("cluster_id"))])
