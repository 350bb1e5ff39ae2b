"""Logging in at the cluster that `det deploy local` has just started."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.base.errors import Unauthenticated
from windlass.deploy.local.certificate import session_at
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.master_yaml import read_config
from windlass.deploy.local.options import Options, names_of_host
from windlass.sdk.client import Client
from windlass.sdk.credentials import DEFAULT_USER, TokenCache
from windlass.sdk.session import Session

USERS = ("admin", DEFAULT_USER)
"""Those that every master has from the start. The last one is who calls that name nobody are from."""


def log_in(folder: ClusterFolder, options: Options) -> bool:
    """Store a token of each user, for both names of this machine. False: the first password is not theirs any more."""
    password, cache = _first_password(folder, options), TokenCache()
    with session_at(options.url, None, options, folder) as session:
        urls = names_of_host(session.url)
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


def _first_password(folder: ClusterFolder, options: Options) -> str | None:
    security = read_config(options.master_config).get("security") or {}
    if given := security.get("initial_user_password"):
        return str(given)
    if security.get("allow_empty_password"):
        return ""
    try:
        return folder.password_file.read_text().strip()
    except OSError:
        return None
