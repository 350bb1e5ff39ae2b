"""The master.yaml of a local cluster: the operator's, with what options of `cluster-up` say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from windlass.base.errors import InvalidArgument
from windlass.base.files import write_atomic
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.options import Options

SHARED_MODE = 0o1777
"""Of a folder in which every user's tasks write their own."""
DEFAULT_POOL = "default"

Yaml = dict[str, Any]


def config_file(options: Options, folder: ClusterFolder) -> Path | None:
    """What the master reads. None: its defaults. Raises InvalidArgument."""
    said = _said(options)
    if not said:
        return options.master_config
    given = read_config(options.master_config)
    content = {**given, **said}
    if "security" in said:
        security = given.get("security") or {}
        tls = {**(security.get("tls") or {}), "self_signed": True}
        content["security"] = {**security, "tls": tls}
    if options.auto_work_dir is not None:
        defaults = given.get("task_container_defaults") or {}
        content["task_container_defaults"] = _with_work_dir(defaults, str(options.auto_work_dir))
    source = options.master_config or "the defaults"
    header = f"# Written by `det deploy local` from {source} and its own options: change those.\n"
    text = header + yaml.safe_dump(content, sort_keys=False)
    write_atomic(folder.master_yaml, text.encode())
    return folder.master_yaml


def agents_pool(options: Options) -> str:
    """Which pool the agents join: that given, else `default`, else the first that waits for agents."""
    if options.pool is not None:
        return options.pool
    pools = read_config(options.master_config).get("resource_pools") or []
    static = [
        str(pool.get("pool_name"))
        for pool in pools
        if isinstance(pool, dict) and not ({"provider", "providers"} & pool.keys())
    ]
    return DEFAULT_POOL if DEFAULT_POOL in static or not static else static[0]


def read_config(path: Path | None) -> Yaml:
    if path is None:
        return {}
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidArgument(f"--master-config {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise InvalidArgument(f"--master-config {path} is not YAML: {problem}") from None
    if content is not None and not isinstance(content, dict):
        raise InvalidArgument(f"--master-config {path}: expected a YAML mapping")
    return content or {}


def with_tls(options: Options) -> Options:
    """TLS is on, too, where master.yaml says so."""
    if options.tls or not _speaks_tls(read_config(options.master_config)):
        return options
    return Options(tls=True).over(options)


def make_folders(options: Options) -> None:
    """Those that options name; what exists is left as it is."""
    if options.storage_host_path is not None and not options.storage_host_path.exists():
        try:
            options.storage_host_path.mkdir(parents=True)
            options.storage_host_path.chmod(SHARED_MODE)
        except OSError as error:
            raise InvalidArgument(
                f"--storage-host-path {options.storage_host_path} cannot be made: {error.strerror}"
            ) from None
    if options.auto_work_dir is not None and not options.auto_work_dir.is_dir():
        raise InvalidArgument(f"--auto-work-dir {options.auto_work_dir}: no such folder")


def _said(options: Options) -> Yaml:
    """The top-level keys that options set."""
    said: Yaml = {}
    if options.cluster_name is not None:
        said["cluster_name"] = options.cluster_name
    if options.storage_host_path is not None:
        path = str(options.storage_host_path)
        said["checkpoint_storage"] = {"type": "shared_fs", "host_path": path}
    if options.auto_work_dir is not None:
        said["task_container_defaults"] = {}
    if options.tls and not _speaks_tls(read_config(options.master_config)):
        said["security"] = {}
    return said


def _with_work_dir(defaults: Yaml, work_dir: str) -> Yaml:
    mounts = [
        *(defaults.get("bind_mounts") or ()),
        {"host_path": work_dir, "container_path": work_dir},
    ]
    return {**defaults, "work_dir": work_dir, "bind_mounts": mounts}


def _speaks_tls(config: Yaml) -> bool:
    security = config.get("security")
    tls = security.get("tls") if isinstance(security, dict) else None
    return isinstance(tls, dict) and bool(tls.get("cert") or tls.get("self_signed"))
