"""From master.yaml and the data folder to the certificate that is served."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from master.config import MasterConfig
from master.data_folder import TLS
from master.recovery.check import Finding
from master.tls.own_authority import OwnAuthority, names_here
from master.tls.serving import ServedTls, TlsFiles
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig
from windlass.base.network import is_loopback


def open_tls(
    config: MasterConfig, data_dir: Path, clock: Clock, *, url: str = ""
) -> ServedTls | None:
    """None: plain HTTP. `url`: by which others call this master. Raises InvalidConfig, InvalidState."""
    authority = _own_authority(config, data_dir, url)
    if authority is not None:
        authority.ensure(clock.now())
        return ServedTls(authority.files, clock, renew=authority.ensure)
    files = files_of(config, data_dir)
    return None if files is None else ServedTls(files, clock)


def files_of(config: MasterConfig, data_dir: Path) -> TlsFiles | None:
    """What is served, if it is there. None: plain HTTP."""
    tls = config.security.tls
    if tls.self_signed:
        return OwnAuthority(data_dir / TLS, (), ca=_ca(config)).files
    if not tls.cert:
        return None
    return TlsFiles(cert=Path(tls.cert), key=Path(tls.key), ca=_ca(config))


def make_own(config: MasterConfig, data_dir: Path, clock: Clock) -> None:
    """So that what must be trusted is known before the master runs. Raises InvalidConfig, InvalidState."""
    authority = _own_authority(config, data_dir, "")
    if authority is None:
        raise InvalidConfig(
            ["security.tls.self_signed: is false: there is no certificate to make"],
            what="master configuration",
        )
    authority.ensure(clock.now())


def own_files(data_dir: Path) -> TlsFiles | None:
    """Of a master that was told on its command line to sign its certificate itself."""
    files = OwnAuthority(data_dir / TLS, ()).files
    return files if files.cert.exists() else None


def certificate_findings(config: MasterConfig, data_dir: Path, now: datetime) -> list[Finding]:
    """For `windlass master check`; nothing without TLS."""
    files = files_of(config, data_dir)
    if files is None or not (files.cert.exists() or config.security.tls.cert):
        return []
    try:
        files.read(now)
    except InvalidConfig as error:
        return [Finding(f"{files.cert}: certificate", error.problems)]
    return [Finding(f"{files.cert}: certificate")]


def default_url(config: MasterConfig, tls: ServedTls | None) -> str:
    """By which agents and tasks call this master if nobody says: a name that is in its certificate."""
    host = "127.0.0.1" if config.host in ("0.0.0.0", "::") else config.host  # noqa: S104
    if tls is not None and host not in tls.names():
        host = next((name for name in tls.names() if "*" not in name), host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if tls is None else 'https'}://{shown}:{config.port}"


def open_warnings(config: MasterConfig) -> list[str]:
    """What an operator should know at the start."""
    security = config.security
    if security.tls.enabled or is_loopback(config.host) or security.trusted_proxies:
        return []
    return [
        f"the master listens on {config.host} port {config.port} without TLS: passwords, tokens and code can be "
        "read on the way; set security.tls.cert and .key, or security.tls.self_signed: true, or put a proxy with TLS "
        "before it and name it in security.trusted_proxies"
    ]


def _own_authority(config: MasterConfig, data_dir: Path, url: str) -> OwnAuthority | None:
    if not config.security.tls.self_signed:
        return None
    called = urlsplit(url).hostname or ""
    names = names_here(called, config.host, *config.security.allowed_hosts)
    return OwnAuthority(data_dir / TLS, names, ca=_ca(config))


def _ca(config: MasterConfig) -> Path | None:
    return Path(config.security.tls.ca) if config.security.tls.ca else None
