"""The script that the master's machine starts with. Pure; it holds no secret."""

from __future__ import annotations

from importlib.resources import files
from shlex import quote

from windlass import __version__
from windlass.base.errors import InvalidConfig
from windlass.base.packages import DISTRIBUTION
from windlass.deploy.cloud.options import CommonOptions
from windlass.deploy.cloud.template import for_terraform, from_terraform

MOST_BOOT_BYTES = 14 * 1024
"""AWS takes 16 KB of user data; ids and addresses are filled in later."""
_END = "END_OF_MASTER_YAML"


def master_boot(
    cloud: str, options: CommonOptions, master_yaml: str, settings: dict[str, str]
) -> str:
    """For Terraform's `templatestring`. `master_yaml` was filled in; `settings` may name what Terraform knows."""
    if _END in master_yaml:
        raise InvalidConfig([f"must not contain {_END}"], what="template of master.yaml")
    given = {
        "CLOUD": cloud,
        "PACKAGE": options.package or f"{DISTRIBUTION}[master,storage,{cloud}]=={__version__}",
        "DATABASE": options.database,
        "URL_SCHEME": options.scheme,
        "PORT": str(options.master_port),
        # Only so that another secret makes another machine, which reads it.
        "SECRETS_VERSION": from_terraform("secrets_version"),
        **settings,
    }
    lines = [for_terraform(f"{name}={quote(value)}") for name, value in given.items()]
    script = for_terraform(
        (files("windlass.deploy.cloud") / "files" / "master_boot.sh").read_text(encoding="ascii")
    )
    config = f"config() {{ cat <<'{_END}'\n{master_yaml.rstrip()}\n{_END}\n}}"
    return _checked_size("\n".join(["#!/bin/sh", *lines, config, script]))


def _checked_size(boot: str) -> str:
    size = len(boot.encode())
    if size > MOST_BOOT_BYTES:
        raise InvalidConfig(
            [
                f"has {size} bytes with what the master's machine starts with; {MOST_BOOT_BYTES} fit: "
                "leave comments out, or shorten --master-config-template-path"
            ],
            what="script of the master's machine",
        )
    return boot
