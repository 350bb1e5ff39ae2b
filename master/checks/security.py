"""What of a master is open on its machine, for `windlass doctor`: files and processes are looked at, nothing is asked.

Each check is a function of what it looks at, and one line of the table.
"""

from __future__ import annotations

import ipaddress
import resource
import shlex
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from pydantic import ValidationError

from master.auth.first_password import FILE as FIRST_PASSWORD
from master.auth.passwords import client_hash
from master.config import MasterConfig
from master.config.sections import SQLITE_FILE
from master.data_folder import SECRET
from master.recovery.identity import LAST_BACKUP, LastBackup
from master.tls.opening import files_of
from master.tls.serving import WARN_BEFORE
from windlass.base.checks import Check, CheckStatus
from windlass.base.errors import InvalidConfig
from windlass.base.network import is_loopback

OLD_BACKUP = timedelta(days=7)
FEW_FILES = 16_384
"""Each live task holds a connection; the goal is 8,000 of them, with agents and people besides."""
WIDE_V4, WIDE_V6 = 16, 48
"""A network of proxies that is larger holds machines of others, too."""


def security_checks(
    folder: Path, config_file: Path | None, config: MasterConfig
) -> Iterator[Check]:
    """Of a data folder that a master has used."""
    yield check_modes(folder)
    yield check_owner(folder)
    yield check_agents(folder, list(_local_agents()))
    if config_file is not None:
        yield check_config_file(config_file)
    yield from check_passwords(folder, config)
    yield check_listening(config)
    yield from check_certificate(config, folder, datetime.now(UTC))
    yield check_proxies(config.security.trusted_proxies)
    yield check_hosts(config.security.allowed_hosts)
    yield check_task_pages(config)
    yield check_others_work(config)
    yield check_backup(folder, datetime.now(UTC))
    yield check_files_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def check_modes(folder: Path) -> Check:
    """The folder keeps everybody else out; where it does not, its files must."""
    private = (SECRET, SQLITE_FILE, "logs.db", FIRST_PASSWORD)
    open_ones = [path for path in (folder / name for name in private) if _is_open(path)]
    if open_ones:
        names = " ".join(map(str, open_ones))
        return _failed("private files", f"others may read {names}", f"chmod 600 {names}")
    if _is_open(folder):
        return _failed("private files", f"others may enter {folder}", f"chmod 700 {folder}")
    return _ok("private files", f"only their owner reads {folder}")


def check_owner(folder: Path) -> Check:
    if folder.stat().st_uid != 0:
        return _ok("user", f"the master runs as uid {folder.stat().st_uid}")
    return _warning(
        "user",
        "the master runs as root",
        "give it a user of its own, unless it must start root agents (embedded pools) on this machine",
    )


def check_agents(folder: Path, agents: Sequence[tuple[int, int]]) -> Check:
    """`agents`: process id and user id of those that run here."""
    owner = folder.stat().st_uid
    same = [pid for pid, uid in agents if uid == owner != 0]
    if same:
        return _warning(
            "agents here",
            f"agents {', '.join(map(str, same))} run as the user who owns {folder}: what a task can read "
            "hangs on its namespaces alone",
            "run agents as another user, or as root so that tasks run as users of their own",
        )
    if owner == 0:
        found = "each runs tasks as their users if it is root, else as its own"
    else:
        found = "none as the master's own user"
    return _ok("agents here", f"{len(agents)}, {found}" if agents else "none")


def check_config_file(path: Path) -> Check:
    if _is_open(path):
        return _failed("master.yaml", f"others may read {path}", f"chmod 600 {path}")
    return _ok("master.yaml", f"only its owner reads {path}")


def check_passwords(folder: Path, config: MasterConfig) -> Iterator[Check]:
    if config.security.allow_empty_password:
        yield _warning(
            "empty passwords",
            "allowed: whoever has an account on this machine can be any user that has no password",
            "remove security.allow_empty_password, and give the users passwords",
        )
    else:
        yield _ok("empty passwords", "not allowed")
    hashes = _stored_passwords(folder, config)
    if hashes is None:
        yield _ok("first password", "not looked at: users are not in SQLite")
        return
    first = config.security.initial_user_password or _text(folder / FIRST_PASSWORD)
    if not first:
        yield _ok("first password", f"not looked at: there is no {folder / FIRST_PASSWORD}")
        return
    using = [name for name, hashed in hashes.items() if _matches(hashed, first)]
    if using:
        yield _warning(
            "first password",
            f"still in use by {', '.join(using)}",
            "; ".join(f"det -u {name} user change-password" for name in using),
        )
    else:
        yield _ok("first password", "not in use")


def check_listening(config: MasterConfig) -> Check:
    where = f"{config.host} port {config.port}"
    if config.security.tls.enabled:
        return _ok("listening", f"{where} with TLS")
    if is_loopback(config.host):
        return _ok("listening", f"{where}: from this machine only")
    if config.security.trusted_proxies:
        return _ok(
            "listening", f"{where}, for the proxies {', '.join(config.security.trusted_proxies)}"
        )
    return _warning(
        "listening",
        f"{where} without TLS: passwords and tokens can be read on the way",
        "set security.tls.cert and .key, or security.tls.self_signed: true; or put a proxy with TLS before it, name it "
        "in security.trusted_proxies, and let only that proxy and your agents' network reach the port",
    )


def check_certificate(config: MasterConfig, folder: Path, now: datetime) -> Iterator[Check]:
    """Nothing without TLS."""
    files = files_of(config, folder)
    if files is None or not (files.cert.exists() or config.security.tls.cert):
        return
    name = "certificate"
    try:
        certificate = files.read(now)
    except InvalidConfig as error:
        yield _failed(
            name, error.problems[0], "put a certificate there that works: no restart needed"
        )
        return
    ends = f"good until {certificate.not_after:%Y-%m-%d}"
    if certificate.not_after - now < WARN_BEFORE:
        yield _warning(name, ends, f"renew it, and put it to {files.cert}: no restart needed")
    elif not certificate.names:
        yield _warning(
            name, "it names no host", "get one with subjectAltName: clients look there only"
        )
    elif _is_open_to_others(files.key):
        yield _failed(name, f"others may read {files.key}", f"chmod o-rwx {files.key}")
    else:
        yield _ok(name, f"{ends}, for {', '.join(certificate.names[:3])}")


def check_task_pages(config: MasterConfig) -> Check:
    origin = config.webui.task_origin
    if origin is not None:
        return _ok("pages of tasks", f"at {origin}, apart from the master's")
    if is_loopback(config.host) and not config.security.trusted_proxies:
        return _ok("pages of tasks", "from this machine only")
    return _warning(
        "pages of tasks",
        "notebooks and TensorBoards are shown at the master's own origin: their pages may act as whoever looks at them",
        "set webui.task_origin to another name of this master, or to its address with webui.task_port",
    )


def task_page_warnings(config: MasterConfig) -> list[str]:
    """What an operator should know at the start."""
    check = check_task_pages(config)
    return [] if check.status is CheckStatus.OK else [f"{check.found}; {check.advice}"]


def check_proxies(networks: Sequence[str]) -> Check:
    parsed = [ipaddress.ip_network(one, strict=False) for one in networks]
    wide = [n for n in parsed if n.prefixlen < (WIDE_V4 if n.version == 4 else WIDE_V6)]
    if not wide:
        return _ok("trusted proxies", ", ".join(networks) or "none")
    found = f"{', '.join(map(str, wide))}: everybody there can say who a caller is"
    advice = "name the addresses of your proxies in security.trusted_proxies"
    if any(network.prefixlen == 0 for network in wide):
        return _failed("trusted proxies", found, advice)
    return _warning("trusted proxies", found, advice)


def check_hosts(names: Sequence[str]) -> Check:
    wide = [name for name in names if name.strip(".").count(".") == 0 and name.startswith(".")]
    if wide or "*" in names:
        return _failed(
            "allowed hosts",
            f"{', '.join(names)}: pages of others may call this master by names of their own",
            "name this master's hosts in security.allowed_hosts, or your own domain: .lab.example.org",
        )
    return _ok("allowed hosts", ", ".join(names) or "loopback and this machine's own")


def check_others_work(config: MasterConfig) -> Check:
    if config.security.authz.others_work == "owner":
        return _ok("others' work", "changed by owners and administrators only")
    return _warning(
        "others' work",
        "every user may change and end the work of others",
        "set security.authz.others_work: owner",
    )


def check_backup(folder: Path, now: datetime) -> Check:
    place = shlex.quote(str(folder.absolute()))
    advice = f"windlass master backup DIR --data-dir {place}, each night, to another machine"
    try:
        last = LastBackup.model_validate_json((folder / LAST_BACKUP).read_bytes())
        age = now - datetime.fromisoformat(last.made_at)
    except (OSError, ValidationError, ValueError, TypeError):
        return _warning("backup", f"none is noted in {folder}", advice)
    found = f"{last.path}, {age.days} days old"
    return _warning("backup", found, advice) if age > OLD_BACKUP else _ok("backup", found)


def check_files_limit(most: int) -> Check:
    if most == resource.RLIM_INFINITY or most >= FEW_FILES:
        return _ok("open files", f"up to {most}")
    return _warning(
        "open files",
        f"at most {most}: each live task, agent and caller takes one",
        f"LimitNOFILE={FEW_FILES} in its systemd unit, or ulimit -Hn {FEW_FILES}",
    )


def _is_open(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o077)


def _is_open_to_others(path: Path) -> bool:
    """Certificates' keys are often of a group that several services are in."""
    return bool(path.stat().st_mode & stat.S_IROTH)


def _local_agents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"agent" in words and words[words.index(b"agent") + 1 :][:1] == [b"run"]:
                yield int(entry.name), entry.stat().st_uid
        except OSError:
            continue  # it has ended, or is not ours to see


def _stored_passwords(folder: Path, config: MasterConfig) -> dict[str, str] | None:
    """Of the two users that every master has. None: they are elsewhere, or not to be read."""
    path = folder / SQLITE_FILE
    if config.db.url or config.db.host or not path.exists():
        return None
    query = "SELECT username, password_hash FROM user WHERE id IN (1, 2)"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return dict(database.execute(query).fetchall())
    except sqlite3.Error:
        return None


def _matches(hashed: str, password: str) -> bool:
    try:
        return PasswordHasher().verify(hashed, client_hash(password))
    except (VerificationError, InvalidHashError):
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _ok(name: str, found: str) -> Check:
    return Check(name=f"master: {name}", found=found)


def _warning(name: str, found: str, advice: str) -> Check:
    return Check(name=f"master: {name}", status=CheckStatus.WARNING, found=found, advice=advice)


def _failed(name: str, found: str, advice: str) -> Check:
    return Check(name=f"master: {name}", status=CheckStatus.FAILED, found=found, advice=advice)
