"""Who the user is at which master: command line, environment, and a cache of tokens.

The cache is `windlass/auth.json` in the user's configuration directory, readable by its owner only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from platformdirs import user_config_path

from windlass.base.errors import Unauthenticated
from windlass.base.tls.trust import CertificateRefused, Trust
from windlass.base.tls.words import TlsRefusal
from windlass.sdk.certificates import (
    NAME_VARIABLE,
    accept,
    may_be_accepted,
    question,
    refused_in_words,
    trust_for,
)
from windlass.sdk.session import REQUEST_TIMEOUT_S, Session
from windlass.sdk.wire import Json, canonical_url

DEFAULT_MASTER = "http://localhost:8080"
DEFAULT_USER = "determined"

AskPassword = Callable[[str], str]
"""Gets a prompt, returns the password."""
AskTrust = Callable[[str], bool]
"""Gets a question about a certificate, returns whether to trust it."""


def master_url(given: str | None, environ: Mapping[str, str]) -> str:
    """The command line, then DET_MASTER, then DET_MASTER_ADDR, then this machine."""
    return canonical_url(
        given or environ.get("DET_MASTER") or environ.get("DET_MASTER_ADDR") or DEFAULT_MASTER
    )


class TokenCache:
    """Tokens by master and user, and who logged in at each master last."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or user_config_path("windlass") / "auth.json"

    def active_user(self, url: str) -> str | None:
        return self._master(url).get("active_user")

    def users(self, url: str) -> list[str]:
        """Those whose tokens are here."""
        return sorted(self._master(url).get("tokens") or {})

    def token(self, url: str, user: str) -> str | None:
        tokens: dict[str, str] = self._master(url).get("tokens") or {}
        return tokens.get(user)

    def remember(self, url: str, user: str, token: str, *, active: bool = True) -> None:
        """`active`: calls that name nobody are this user's from now on."""
        content = self._read()
        master = content["masters"].setdefault(url, {})
        if active:
            master["active_user"] = user
        master.setdefault("tokens", {})[user] = token
        self._write(content)

    def forget(self, url: str, user: str) -> None:
        self._forget(url, user, active=False)

    def forget_token(self, url: str, user: str) -> None:
        """It has expired. Who the user is stays: nobody becomes somebody else by that."""
        self._forget(url, user, active=True)

    def _forget(self, url: str, user: str, *, active: bool) -> None:
        content = self._read()
        master = content["masters"].get(url) or {}
        (master.get("tokens") or {}).pop(user, None)
        if master.get("active_user") == user and not active:
            master["active_user"] = None
        self._write(content)

    def _master(self, url: str) -> Json:
        return dict(self._read()["masters"].get(url) or {})

    def _read(self) -> Json:
        """An unreadable cache counts as an empty one: the worst that follows is another login."""
        try:
            content = json.loads(self.path.read_text())
        except (OSError, ValueError):
            content = None
        if not isinstance(content, dict) or not isinstance(content.get("masters"), dict):
            return {"version": 1, "masters": {}}
        return content

    def _write(self, content: Json) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file, indent=2)
        fresh.replace(self.path)


def open_session(
    url: str,
    environ: Mapping[str, str],
    token: str | None = None,
    *,
    timeout_s: float = REQUEST_TIMEOUT_S,
    ask_trust: AskTrust | None = None,
) -> Session:
    """A session that trusts the master's certificate as the environment says, or else as the user has said before.

    Raises InvalidArgument for a DET_MASTER_CERT_FILE that cannot be read.
    """
    trust = trust_for(url, environ)

    def on_refusal(refusal: TlsRefusal) -> Trust:
        if ask_trust is not None and may_be_accepted(refusal, environ):
            if ask_trust(question(url, refusal, trust.pem)):
                return accept(url, refusal, environ)
            raise CertificateRefused(f"The certificate of the master at {url} was not accepted")
        raise CertificateRefused(refused_in_words(url, refusal, environ, trust.pem))

    return Session(
        url,
        token,
        trust=trust,
        cert_name=environ.get(NAME_VARIABLE),
        on_refusal=on_refusal,
        timeout_s=timeout_s,
    )


def connect(
    master: str | None = None,
    user: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cache: TokenCache | None = None,
    ask_password: AskPassword | None = None,
    ask_trust: AskTrust | None = None,
) -> Session:
    """A logged-in session.

    Who: `user`, for this session only; else DET_USER with DET_PASS, else who logged in at this master last, else
    DET_USER with DET_USER_TOKEN (as inside tasks), else `determined`. Raises Unauthenticated, with the command that
    helps, if there is no way in and nobody to ask.
    """
    env = os.environ if environ is None else environ
    tokens = cache or TokenCache()
    url = master_url(master, env)
    session = open_session(url, env, ask_trust=ask_trust)
    try:
        env_user, env_password = env.get("DET_USER"), env.get("DET_PASS")
        if env_user and env_password is not None and user in (None, env_user):
            session.login(env_user, env_password)
            return session
        active = user or tokens.active_user(url)
        cached = tokens.token(url, active) if active else None
        if active and cached and _is_valid(session, cached):
            return session
        if cached and active:
            tokens.forget_token(url, active)
        env_token = env.get("DET_USER_TOKEN")
        if env_user and env_token and active in (None, env_user):
            session.token = env_token
            return session
        remember = partial(tokens.remember, url, active or DEFAULT_USER, active=user is None)
        _log_in(session, remember, active or DEFAULT_USER, bool(cached), ask_password)
    except BaseException:
        session.close()
        raise
    return session


def _is_valid(session: Session, token: str) -> bool:
    session.token = token
    try:
        session.get("/api/v1/me")
    except Unauthenticated:
        session.token = None
        return False
    return True


def _log_in(
    session: Session,
    remember: Callable[[str], None],
    user: str,
    expired: bool,
    ask: AskPassword | None,
) -> None:
    session.get(
        "/info"
    )  # that the master is away must be told before anybody is asked for a password
    if ask is None:
        why = "The login has expired" if expired else "Not logged in"
        raise Unauthenticated(
            f"{why} as {user} at {session.url}: run `det -m {session.url} user login {user}`"
        )
    password = ask(f"Password for {user} at {session.url}")
    remember(session.login(user, password))
