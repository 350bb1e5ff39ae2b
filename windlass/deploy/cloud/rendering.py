"""What both clouds put into master.yaml and the cluster's secret. Pure."""

from __future__ import annotations

import secrets as random
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from windlass.base.errors import InvalidConfig
from windlass.base.formats.durations import format_duration
from windlass.deploy.cloud.options import CommonOptions
from windlass.deploy.cloud.template import filled, from_terraform

SHARED_FILES = "/mnt/shared_fs"
IN_TASKS = "/run/determined/workdir/shared_fs"
DATABASE = "determined"
CERT, KEY = "/etc/windlass/tls/cert.pem", "/etc/windlass/tls/key.pem"
_SOCKET = "/var/run/postgresql"
_WHAT = "template of master.yaml"


def template_of(cloud: str) -> str:
    """What `dump-master-config-template` prints."""
    return _file(f"{cloud}_master.yaml")


def master_yaml(cloud: str, options: CommonOptions, values: Mapping[str, Any]) -> str:
    """For Terraform's `templatestring`; nothing of it is secret. Raises InvalidConfig."""
    path = options.master_config_template_path
    if path is None:
        return filled(template_of(cloud), values, _WHAT)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig([f"{path} cannot be read: {error}"], what=_WHAT) from None
    return filled(text, values, f"{_WHAT} {path}")


def common_values(options: CommonOptions, *, mounts_files: bool) -> dict[str, Any]:
    scheduler: dict[str, Any] = {"type": options.scheduler_type}
    if options.scheduler_type == "priority":
        scheduler["preemption"] = options.preemption_enabled
    return {
        "cluster_id": options.cluster_id,
        "port": options.master_port,
        "db": _database(options),
        "tls": {"self_signed": True} if options.tls else {},
        "allowed_hosts": [from_terraform("master_address")],
        "task_container_defaults": _containers(options, mounts_files),
        "bucket": from_terraform("bucket"),
        "scheduler": scheduler,
        "min_dynamic_agents": options.min_dynamic_agents,
        "max_dynamic_agents": options.max_dynamic_agents,
        "max_idle_agent_period": format_duration(options.max_idle_agent_period),
        "max_agent_starting_period": format_duration(options.max_agent_starting_period),
        "max_aux_containers_per_agent": options.max_aux_containers_per_agent,
        "aux_agent_instance_type": options.aux_agent_instance_type,
        "compute_agent_instance_type": options.compute_agent_instance_type,
    }


def common_secrets(options: CommonOptions) -> dict[str, Any]:
    """Laid over master.yaml on the master's machine. What was not given is drawn here."""
    over: dict[str, Any] = {
        "security": {"initial_user_password": options.initial_user_password or _password()}
    }
    if options.database == "managed":
        over["db"] = {"password": options.db_password or _password()}
    return over


def given_secrets(options: CommonOptions) -> dict[str, str]:
    names = ("db_password", "initial_user_password", "docker_pass")
    return {name: text for name in names if (text := getattr(options, name, ""))}


NFS_CLIENT = """set -e
command -v mount.nfs4 >/dev/null || { apt-get update -q; apt-get install -qy nfs-common; }
"""
"""A start-up script for the machines of pools."""


def nfs_mount(address: str) -> str:
    """A script for each machine: `address` is HOST:/PATH."""
    return mount(f"-t nfs4 -o nfsvers=4.1,hard,timeo=600,retrans=2,noresvport {address}")


def mount(what: str) -> str:
    """`what`: as the arguments of mount have it."""
    return "\n".join(
        [
            "set -e",
            f"mountpoint -q {SHARED_FILES} && exit 0",
            f"mkdir -p {SHARED_FILES}",
            f"mount {what} {SHARED_FILES}",
            "",
        ]
    )


def _database(options: CommonOptions) -> dict[str, Any]:
    if options.database == "local":
        # Over the socket PostgreSQL knows who asks: there is no password.
        return {"url": f"postgresql+asyncpg://windlass@/{DATABASE}?host={_SOCKET}"}
    host = from_terraform("database_host")
    return {"host": host, "name": DATABASE, "user": DATABASE, "ssl_mode": "require"}


def _containers(options: CommonOptions, mounts_files: bool) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    if options.cpu_env_image:
        defaults["image"] = {"cpu": options.cpu_env_image, "cuda": options.gpu_env_image}
    if mounts_files:
        defaults["bind_mounts"] = [{"host_path": SHARED_FILES, "container_path": IN_TASKS}]
    return defaults


def _password() -> str:
    return random.token_urlsafe(24)


def _file(name: str) -> str:
    return (files("windlass.deploy.cloud") / "files" / name).read_text(encoding="utf-8")


def readable(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig([f"{option} {path} cannot be read: {error}"], what="options") from None
