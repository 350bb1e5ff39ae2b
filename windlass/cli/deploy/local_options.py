"""Options that verbs of `det deploy local` share. Where the published client has another name, both are taken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from windlass.deploy.local import DEFAULT_PORT

PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        "--master-port",
        min=1,
        max=65535,
        help=f"Port of the master. Default: {DEFAULT_PORT}.",
        show_default=False,
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option(
        "--slots",
        "--slots-per-agent",
        min=0,
        max=1024,
        help="Give each agent artificial slots, to try without GPUs.",
    ),
]
GpuOption = Annotated[
    bool | None,
    typer.Option("--gpu/--no-gpu", help="Use GPUs, or not. Default: if there are some."),
]
PoolOption = Annotated[
    str | None,
    typer.Option(
        "--agent-resource-pool",
        "--pool",
        help="Let agents join this resource pool. Default: the first one that waits for agents.",
    ),
]
AutorestartOption = Annotated[
    bool | None,
    typer.Option(
        "--autorestart/--no-autorestart",
        help="Start again what ends by itself, or not. Default: again.",
        show_default=False,
    ),
]
DeleteDbOption = Annotated[
    bool,
    typer.Option(
        "--delete-db",
        help="Begin anew: the data of the master and its agents is moved to the folder `deleted`.",
    ),
]
VersionOption = Annotated[
    str | None, typer.Option("--det-version", hidden=True, help="Accept this version only.")
]
EnterpriseOption = Annotated[bool, typer.Option("--enterprise-edition", hidden=True)]
MasterNameOption = Annotated[str | None, typer.Option("--master-name", hidden=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMasterOptions:
    """How the master runs. Each is one of `deploy.local.options.Options`."""

    port: PortOption = None
    host: Annotated[
        str | None,
        typer.Option(
            help="Let the master listen on this address; 0.0.0.0 also for agents of other machines. "
            "Default: 127.0.0.1.",
            show_default=False,
        ),
    ] = None
    master_config: Annotated[
        Path | None,
        typer.Option("--master-config", "--master-config-path", help="Use this master.yaml."),
    ] = None
    storage_host_path: Annotated[
        Path | None,
        typer.Option(
            help="Keep checkpoints in this folder. Default: in the data of the master.",
        ),
    ] = None
    auto_work_dir: Annotated[
        Path | None,
        typer.Option(help="Mount this folder in every task, where commands without files start."),
    ] = None
    tls: Annotated[
        bool | None,
        typer.Option(
            "--tls/--no-tls",
            help="Let the master speak HTTPS, with a certificate that it signs itself unless master.yaml names one. "
            "Default: plain HTTP.",
            show_default=False,
        ),
    ] = None
    autorestart: AutorestartOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginOptions:
    """How it is started this time."""

    initial_user_password: Annotated[
        str | None,
        typer.Option(
            help="Set the password of admin and determined at the first start. Default: a random one, in a file. "
            "While this command runs, other users of this machine can read the option."
        ),
    ] = None
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Restart what runs, with the options of its last start unless given here. Tasks go on.",
        ),
    ] = False
    delete_db: DeleteDbOption = False
    det_version: VersionOption = None
    db_password: Annotated[str | None, typer.Option("--db-password", hidden=True)] = None
    enterprise_edition: EnterpriseOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Which cluster."""

    cluster_name: Annotated[
        str | None,
        typer.Option(
            help="Name of the cluster, one of several on this machine. Default: local.",
            show_default=False,
        ),
    ] = None
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Keep its data here (default: ~/.local/share/windlass/local, or clusters/NAME beside it).",
        ),
    ] = None


HERE = PlaceOptions()
"""Nothing is given: the one cluster of this machine."""
