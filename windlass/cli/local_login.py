"""Logging in at the cluster that `det deploy local` has just started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from windlass.base.errors import Unauthenticated
from windlass.cli.local_cluster import Plan
from windlass.sdk.client import Client
from windlass.sdk.credentials import DEFAULT_USER, TokenCache
from windlass.sdk.session import Session

USERS = ("admin", DEFAULT_USER)
"""Those that every master has from the start. The last one is who calls that name nobody are from."""


def log_in(plan: Plan) -> bool:
    """Store a token of each user, for both names of this machine. False: the first password is not theirs any more."""
    password, cache = _first_password(plan), TokenCache()
    with Session(plan.url) as session:
        urls = (session.url, f"http://localhost:{plan.port}")
        for user in USERS:
            token = _cached(session, cache, urls, user)
            if token is None:
                if password is None:
                    return False
                try:
                    token = session.login(user, password)
                except Unauthenticated:
                    return False
            for url in urls:
                cache.remember(url, user, token)
    return True


def _cached(session: Session, cache: TokenCache, urls: Sequence[str], user: str) -> str | None:
    """A token that is still good: `det` may have stored a newer one for the other name of this machine."""
    tokens = (cache.token(url, user) for url in urls)
    return next((token for token in tokens if token and _is_valid(session, token)), None)


def _is_valid(session: Session, token: str) -> bool:
    session.token = token
    try:
        Client(session).me()
    except Unauthenticated:
        return False
    return True


def _first_password(plan: Plan) -> str | None:
    security = _security(plan.master_config)
    if given := security.get("initial_user_password"):
        return str(given)
    if security.get("allow_empty_password"):
        return ""
    try:
        return plan.password_file.read_text().strip()
    except OSError:
        return None


def _security(config: Path | None) -> dict[str, object]:
    """That section of a file which the master has read without complaint."""
    content = yaml.safe_load(config.read_text()) if config else None
    return dict((content or {}).get("security") or {})
