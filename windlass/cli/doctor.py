"""`windlass doctor`: what of an installation works, and the way out of what does not."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import typer

from windlass import __version__
from windlass.base.checks import CHECKS_GROUP, Check, CheckStatus
from windlass.base.errors import Unauthenticated, WindlassError
from windlass.base.packages import DISTRIBUTION, shadowed, shadowing_text
from windlass.cli.connect import Settings, settings_of
from windlass.cli.output.columns import print_rows
from windlass.cli.output.text import print_json
from windlass.sdk.client import Client
from windlass.sdk.credentials import TokenCache, master_url, open_session
from windlass.sdk.session import Session
from windlass.sdk.wire import MasterUnreachable

OLDEST_PYTHON = (3, 11)
EXTRAS = ("master", "agent")
PUBLISHED = "determined"
"""The published package: it brings a script `det`, too."""
TIMEOUT_S = 5.0


def run_doctor(ctx: typer.Context, as_json: bool, *, offline: bool = False) -> None:
    """Print all checks. `offline`: without those of a master that answers. Raises typer.Exit(1) if one failed."""
    print_checks(list(_all(settings_of(ctx), offline)), as_json)


def print_checks(checks: Sequence[Check], as_json: bool) -> None:
    """With the way out of each problem below. Raises typer.Exit(1) if one failed."""
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        rows = [[check.name, check.status.value, check.found] for check in checks]
        print_rows(["Check", "State", "Found"], rows)
        for check in checks:
            if check.status is not CheckStatus.OK:
                typer.echo(f"{check.name}: {check.advice}")
    if any(check.status is CheckStatus.FAILED for check in checks):
        raise typer.Exit(1)


def _all(settings: Settings, offline: bool) -> Iterator[Check]:
    yield check_python(sys.version_info[:3])
    for extra in EXTRAS:
        yield check_extra(extra)
    yield check_scripts(Path(sys.executable).parent)
    hidden = shadowed()
    yield check_shadowed(hidden)
    if not offline:
        yield from check_master(settings)
    if not hidden:
        yield from _checks_of_extras()


def check_python(version: tuple[int, ...]) -> Check:
    found = f"{'.'.join(map(str, version))} at {sys.executable}"
    if version[:2] >= OLDEST_PYTHON:
        return Check(name="Python", found=found)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    advice = f"install {DISTRIBUTION} in an environment of Python {oldest} or newer"
    return Check(name="Python", status=CheckStatus.FAILED, found=found, advice=advice)


def check_extra(extra: str) -> Check:
    """Not installed is fine; half installed is not."""
    name, wanted = f"extra {extra}", _requirements(extra)
    missing = [package for package in wanted if not _version_of(package)]
    if not missing:
        return Check(name=name, found="installed")
    if len(missing) == len(wanted):
        return Check(name=name, found="not installed")
    return Check(
        name=name,
        status=CheckStatus.WARNING,
        found=f"missing: {', '.join(missing)}",
        advice=f"if you need it: pip install '{DISTRIBUTION}[{extra}]'",
    )


def check_scripts(bin_dir: Path) -> Check:
    """Which program `det` is."""
    published = _version_of(PUBLISHED)
    det, ours = shutil.which("det"), bin_dir / "det"
    if published and ours.exists() and "windlass" not in ours.read_text(errors="replace"):
        return Check(
            name="command det",
            status=CheckStatus.WARNING,
            found=f"{ours} belongs to the package {PUBLISHED} {published}",
            advice="use the command `windlass`, or install the packages in environments of their own",
        )
    if published:
        return Check(
            name="command det",
            status=CheckStatus.WARNING,
            found=f"{ours} replaced that of the package {PUBLISHED} {published}",
            advice=f"for the published one: python -m {PUBLISHED}.cli; uninstalling either package removes it",
        )
    if det and Path(det).resolve() != ours.resolve():
        return Check(
            name="command det",
            status=CheckStatus.WARNING,
            found=f"{det} comes first on PATH, not {ours}",
            advice=f"put {bin_dir} first on PATH, or use {bin_dir / 'windlass'}",
        )
    return Check(name="command det", found=str(ours) if ours.exists() else "python -m windlass")


def check_shadowed(hidden: dict[str, Path]) -> Check:
    if not hidden:
        return Check(name="packages", found="no file hides ours")
    name, at = next(iter(hidden.items()))
    return Check(
        name="packages",
        status=CheckStatus.FAILED,
        found=f"{', '.join(map(str, hidden.values()))} comes before ours",
        advice=shadowing_text(name, at),
    )


def check_master(settings: Settings) -> Iterator[Check]:
    """Whether it answers, its version, and the login there."""
    try:
        url = master_url(settings.master, os.environ)
        with open_session(url, os.environ, timeout_s=TIMEOUT_S) as session:
            info = Client(session).info()
            yield _version_check(info.get("windlass_version"), str(info.get("version")), url)
            yield check_login(session, settings.user)
    except WindlassError as error:
        way_out = "set its URL with -m or DET_MASTER"
        if isinstance(error, MasterUnreachable):
            way_out = f"start one (det deploy local cluster-up), or {way_out}"
        yield Check(name="master", status=CheckStatus.FAILED, found=error.message, advice=way_out)


def check_login(session: Session, user: str | None) -> Check:
    cache = TokenCache()
    name = user or cache.active_user(session.url)
    token = cache.token(session.url, name) if name else None
    way_in = f"det -m {session.url} user login {name or 'USER'}"
    if not name or not token:
        return Check(name="login", status=CheckStatus.WARNING, found="not logged in", advice=way_in)
    session.token = token
    try:
        Client(session).me()
    except Unauthenticated:
        found = f"the login of {name} has expired"
        return Check(name="login", status=CheckStatus.WARNING, found=found, advice=way_in)
    return Check(name="login", found=f"logged in as {name}")


def _version_check(windlass: str | None, api: str, url: str) -> Check:
    if windlass is None:
        return Check(name="master", found=f"Determined {api} at {url}")
    found = f"windlass {windlass} at {url}"
    if windlass == __version__:
        return Check(name="master", found=found)
    advice = f"this client is {__version__}; install the version of the master if something fails"
    return Check(name="master", status=CheckStatus.WARNING, found=found, advice=advice)


def _checks_of_extras() -> Iterator[Check]:
    """Of the extras that are installed; one that cannot even be loaded was reported as missing."""
    for point in metadata.entry_points(group=CHECKS_GROUP):
        try:
            checks = point.load()
        except ModuleNotFoundError:
            continue
        yield from checks()


def _requirements(extra: str) -> list[str]:
    """Names of the packages that an extra brings."""
    marker = re.compile(rf"extra\s*==\s*['\"]{extra}['\"]")
    lines = metadata.requires(DISTRIBUTION) or []
    return [re.split(r"[\s\[<>=!~;]", line)[0] for line in lines if marker.search(line)]


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
