"""What a master has and needs on its machine, for `windlass doctor`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from master.checks.security import security_checks
from master.checks.site import site_checks
from master.config import load
from master.data_folder import DEFAULT_CONFIG, SECRET, default_folder
from windlass.base.checks import Check, CheckStatus
from windlass.base.errors import InvalidConfig
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.options import ClusterRecord

NAME = "master: data folder"


def checks() -> list[Check]:
    folder = _folder()
    config_file, overrides = _configuration(folder)
    found = [check_folder(folder)]
    is_used = (folder / SECRET).is_file() and os.access(folder, os.R_OK | os.X_OK)
    if not is_used and "DET_CONFIG_FILE" not in os.environ:
        return found
    try:
        config = load(config_file, overrides=overrides)
    except InvalidConfig as error:
        advice = "windlass master config names every problem"
        problem = f"{config_file or 'master.yaml'}: {error.problems[0]}"
        return [*found, _failed(problem, advice, name="master: master.yaml")]
    if is_used:
        found += security_checks(folder, config_file, config)
    return [*found, *asyncio.run(site_checks(config))]


def _folder() -> Path:
    """WINDLASS_DATA_DIR, the default one, or that of `det deploy local` if only that is used."""
    local = user_data_path("windlass") / "local" / "master"
    if given := os.environ.get("WINDLASS_DATA_DIR"):
        return Path(given)
    is_local = not (default_folder() / SECRET).exists() and (local / SECRET).exists()
    return local if is_local else default_folder()


def _configuration(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The file of a master, and what its command line lays over it where `det deploy local` starts it."""
    if given := os.environ.get("DET_CONFIG_FILE"):
        return Path(given), {}
    cluster = ClusterFolder(folder.parent)
    if folder == cluster.master and cluster.state_file.exists() and cluster.master_yaml.exists():
        options = ClusterRecord.read(cluster).options
        return cluster.master_yaml, {"host": options.host, "port": options.port}
    return (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None), {}


def check_folder(folder: Path) -> Check:
    """One that does not exist yet is fine if it can be made."""
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return _failed(f"{place} is not a directory", "give another --data-dir")
    if not os.access(place, os.W_OK | os.X_OK):
        owner = f"chown it to user {os.geteuid()}, or give another --data-dir"
        return _failed(f"{place} is not writable for this user", owner)
    secret = folder / SECRET
    if secret.exists() and secret.stat().st_mode & 0o077:
        return _failed(f"others may read {secret}", f"chmod 600 {secret}")
    state = "used by a master" if secret.exists() else "not used yet"
    return Check(name=NAME, found=f"{folder}: {state}")


def _failed(found: str, advice: str, name: str = NAME) -> Check:
    return Check(name=name, status=CheckStatus.FAILED, found=found, advice=advice)
