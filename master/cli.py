"""`windlass master ...`: what operators of a master do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import yaml

from master.data_folder import DEFAULT_CONFIG
from master.prices import cli as prices_cli
from windlass.base.errors import WindlassError

app = typer.Typer(
    name="master",
    help="Run and manage a master.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(prices_cli.app, name="prices")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config-file",
        "--config",
        "-c",
        envvar="DET_CONFIG_FILE",
        help=f"Read this master.yaml. Default: {DEFAULT_CONFIG} if it exists, else built-in defaults.",
        show_default=False,
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="WINDLASS_DATA_DIR",
        help="Keep the master's state here. Default: /var/lib/windlass as root, "
        "else ~/.local/share/windlass/master.",
        show_default=False,
    ),
]


@app.command()
def run(
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: Annotated[
        str | None,
        typer.Option(help="Listen on this address. Empty passwords work on loopback only."),
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Listen on this port.")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Tell agents and tasks this URL of the master instead of http(s)://HOST:PORT."
        ),
    ] = None,
    tls_cert: Annotated[
        str | None,
        typer.Option(help="Serve the certificate in this file, by HTTPS only.", show_default=False),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(help="Its private key is in this file.", show_default=False)
    ] = None,
    tls_self_signed: Annotated[
        bool | None,
        typer.Option(
            "--tls-self-signed",
            help="Serve a certificate that this master signs itself; its fingerprint is logged.",
        ),
    ] = None,
    replace_lost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="secret|logs",
            help="Go on without this part of the data folder if it is lost; what is there of it is kept. "
            "May be repeated.",
        ),
    ] = None,
    backup_before_upgrade: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Before tables of an earlier release are changed, make a backup in this folder. Three are kept.",
        ),
    ] = None,
) -> None:
    """Run the master until SIGTERM. Tasks keep running without it; a restart reconnects them."""
    from master.app import MasterOptions
    from master.checks.security import task_page_warnings
    from master.core.expconf.secrets import values
    from master.data_folder import held
    from master.logs.own_log import OwnLog
    from master.serve import serve
    from master.tls.opening import default_url, open_tls, open_warnings
    from master.wiring.task_settings import require_mountable
    from windlass.base.clock import SystemClock
    from windlass.base.tls.fingerprints import labelled

    given = {
        "host": host,
        "port": port,
        "security.tls.cert": tls_cert,
        "security.tls.key": tls_key,
        "security.tls.self_signed": tls_self_signed,
    }
    try:
        config = _load(config_file, {k: v for k, v in given.items() if v is not None})
        secrets = values(config.model_dump(mode="json", by_alias=True))
        own_log = OwnLog(config.log.level, config.log.color, secrets=secrets)
        own_log.set_up()
        for warning in (*config.warnings, *open_warnings(config), *task_page_warnings(config)):
            typer.echo(f"warning: {warning}", err=True)
        with held(_data_dir(data_dir)) as folder:
            require_mountable(config, folder)
            tls = open_tls(config, folder, SystemClock(), url=url or "")
            if tls is not None:
                for line in labelled(tls.certificate.fingerprints):
                    typer.echo(line, err=True)
            serve(
                MasterOptions(
                    config=config,
                    data_dir=folder,
                    replace_lost=_lost(replace_lost or ()),
                    backup_before_upgrade=backup_before_upgrade,
                    master_url=url or default_url(config, tls),
                    tls=tls,
                    own_log=own_log,
                )
            )
    except WindlassError as error:
        _fail(error)
    except OSError as error:
        _fail(error)


@app.command("pool-token")
def pool_token(
    pool: Annotated[
        str, typer.Argument(help="Resource pool that the agents will join.", show_default=False)
    ],
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print the permanent join token of a pool, made from the secret in the data folder. No master has to run.

    It cannot be revoked: for agents that are set up together with their master. For all others make tokens that end,
    with `windlass master join-token create`.
    """
    from master.auth.join_tokens import JoinTokenSigner, load_or_create
    from master.data_folder import SECRET, of_a_master

    try:
        _require_pool(pool, config_file)
        signer = JoinTokenSigner(load_or_create(of_a_master(_data_dir(data_dir)) / SECRET))
        typer.echo(signer.token(pool))
    except (WindlassError, OSError) as error:
        _fail(error)


def _lost(words: Iterable[str]) -> frozenset[Any]:
    from master.recovery.decision import LosablePart
    from windlass.base.errors import InvalidConfig

    try:
        return frozenset(map(LosablePart, words))
    except ValueError as error:
        raise InvalidConfig([f"--replace-lost: {error}: give secret or logs"]) from None


def _require_pool(name: str, config_file: Path | None) -> None:
    from windlass.base.errors import InvalidConfig

    pools = [pool.name for pool in _load(config_file, {}).pools()]
    read = _config_path(config_file)
    known = f"the pools {f'of {read}' if read else 'without a master.yaml'} are: {', '.join(pools)}"
    if name not in pools:
        hint = "" if read else " (give the master's --config-file)"
        raise InvalidConfig([f"there is no resource pool '{name}'; {known}{hint}"])


@app.command("config")
def show_config(config_file: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Check master.yaml and print it with every default filled in. Secrets are masked."""
    from master.config import masked
    from master.wiring.task_settings import require_mountable

    try:
        config = _load(config_file, {})
        require_mountable(config, _data_dir(data_dir))
    except WindlassError as error:
        _fail(error)
    for warning in config.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(yaml.safe_dump(masked(config), sort_keys=False), nl=False)


@app.command("end-instances")
def end_instances(data_dir: DataDirOption = None) -> None:
    """Terminate all instances that the embedded pools of a stopped master still have, and their tasks."""
    import asyncio

    from master.data_folder import held, of_a_master
    from master.wiring.elastic import end_embedded_instances

    try:
        with held(of_a_master(_data_dir(data_dir))) as folder:
            ended = asyncio.run(end_embedded_instances(folder))
    except (WindlassError, OSError) as error:
        _fail(error)
    typer.echo(f"ended {ended} instance{'' if ended == 1 else 's'}")


@app.command()
def certificate(
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
    pem: Annotated[
        bool, typer.Option("--pem", help="Print the certificates themselves, for a file.")
    ] = False,
    make: Annotated[
        bool,
        typer.Option("--make", help="Make the certificate of self_signed: true before the start."),
    ] = False,
) -> None:
    """Print the fingerprint by which agents know this master, and how long its certificate is good.

    It is that of the last certificate served: of the authority, where it is among them, so that it stays the same when
    the master gets a new certificate. Agents take it as --cert-fingerprint. All of the chain, labelled, is on standard
    error: clients show them with the same words.
    """
    from master.tls.opening import files_of, make_own, own_files
    from windlass.base.clock import SystemClock
    from windlass.base.errors import InvalidState
    from windlass.base.tls.fingerprints import labelled

    try:
        folder = _data_dir(data_dir).absolute()
        config = _load(config_file, {})
        if make:
            make_own(config, folder, SystemClock())
        files = files_of(config, folder) or own_files(folder)
        if config.security.tls.self_signed and own_files(folder) is None:
            raise InvalidState(
                f"the master has not made its certificate in {folder} yet: start the master, or give --make"
            )
        if files is None:
            raise InvalidState(
                "this master has no certificate: set security.tls.cert and .key in master.yaml, "
                "or security.tls.self_signed: true"
            )
        found = files.read(datetime.now(UTC))
    except (WindlassError, OSError) as error:
        _fail(error)
    if pem:
        typer.echo(found.pem, nl=False)
        return
    typer.echo(found.fingerprints[-1])
    for line in labelled(found.fingerprints):
        typer.echo(line, err=True)
    typer.echo(f"names: {', '.join(found.names)}", err=True)
    typer.echo(f"valid until: {found.not_after:%Y-%m-%d %H:%M} UTC", err=True)


@app.command()
def check(
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
    db: Annotated[
        bool,
        typer.Option(
            "--db", help="Read everything: each page, row and reference, and each submitted file."
        ),
    ] = False,
    cloud: Annotated[
        bool,
        typer.Option(
            "--cloud",
            help="Look instead whether the clouds of master.yaml can deliver what pools may buy: credentials, "
            "permissions, images, subnets, types, quotas. Nothing is launched.",
        ),
    ] = False,
) -> None:
    """Look whether a data folder, its database and the master's certificate are whole. Exits with 1 if not.

    It changes nothing, and the master may run.
    """
    import asyncio

    if cloud:
        _check_clouds(config_file, data_dir)
        return

    from master.recovery.check import check as look
    from master.recovery.places import places_of
    from master.tls.opening import certificate_findings

    try:
        folder = _data_dir(data_dir).absolute()
        config = _load(config_file, {})
        findings = asyncio.run(look(places_of(folder, config.db_url(folder)), full=db))
        findings += certificate_findings(config, folder, datetime.now(UTC))
    except (WindlassError, OSError) as error:
        _fail(error)
    for finding in findings:
        typer.echo(f"{finding.what}: {'DAMAGED' if finding.problems else 'ok'}")
        for problem in finding.problems:
            typer.echo(f"  {problem}")
    if any(finding.problems for finding in findings):
        raise typer.Exit(1)


def _check_clouds(config_file: Path | None, data_dir: Path | None) -> None:
    import asyncio

    from master.wiring.cloud_check import cloud_findings
    from windlass.base.clock import SystemClock

    try:
        config = _load(config_file, {})
        findings = asyncio.run(
            cloud_findings(config, _data_dir(data_dir).absolute(), SystemClock())
        )
    except (WindlassError, OSError) as error:
        _fail(error)
    if not findings:
        typer.echo("no pool of master.yaml buys from a cloud that can be checked")
    for finding in findings:
        typer.echo(f"{finding.what}: {'NOT OK' if finding.problems else 'ok'}")
        for problem in finding.problems:
            typer.echo(f"  {problem}")
    if any(finding.problems for finding in findings):
        raise typer.Exit(1)


@app.command()
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Write the backup here; it must not exist yet.")
    ],
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Copy the state of a master, running or not: databases, model definitions, secret. Checkpoints are not in it.

    Exits with 1 if a file that the state names was missing or damaged; the rest is in the backup all the same.
    """
    import asyncio

    from master.data_folder import of_a_master
    from master.recovery.backup import make_backup
    from master.recovery.places import places_of

    try:
        folder = of_a_master(_data_dir(data_dir))
        places = places_of(folder, _load(config_file, {}).db_url(folder))
        made = asyncio.run(make_backup(places, target, datetime.now(UTC)))
    except (WindlassError, OSError) as error:
        _fail(error)
    size = sum(entry.size for entry in made.files.values()) / 1e6
    typer.echo(
        f"backed up cluster {made.cluster_id} to {target}: {len(made.files)} files, {size:.1f} MB"
    )
    for blob in made.missing_blobs:
        typer.echo(f"warning: the state names blob {blob}, which is missing or damaged", err=True)
    if made.missing_blobs:
        raise typer.Exit(1)


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A backup.")],
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a data folder from a backup. The folder must be empty, and the database too if it is PostgreSQL.

    The result is the same cluster: the master that the backup was made of must not run any more.
    """
    import asyncio

    from master.data_folder import held
    from master.recovery.places import places_of
    from master.recovery.restore import restore_backup

    try:
        with held(_data_dir(data_dir)) as folder:
            places = places_of(folder, _load(config_file, {}).db_url(folder))
            done = asyncio.run(restore_backup(source, places))
    except (WindlassError, OSError) as error:
        _fail(error)
    made_at = done.made_at.isoformat(timespec="seconds")
    typer.echo(f"restored cluster {done.cluster_id} as of {made_at} into {folder}")
    for blob in done.missing_blobs:
        typer.echo(
            f"warning: blob {blob} was missing or damaged when the backup was made", err=True
        )


@app.command("recover-admin")
def recover_admin(
    username: Annotated[str, typer.Argument(metavar="[USER]", help="Who is to administrate.")] = (
        "admin"
    ),
    config_file: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Make a user an active administrator with the role ClusterAdmin, when nobody may do so any more.

    On the machine of the master, which must be stopped. The user's password stays.
    """
    import asyncio

    from master.data_folder import held, of_a_master
    from master.recovery.administrator import recover_administrator
    from windlass.base.clock import SystemClock

    try:
        with held(of_a_master(_data_dir(data_dir))) as folder:
            url = _load(config_file, {}).db_url(folder)
            asyncio.run(recover_administrator(url, folder, username, SystemClock()))
    except (WindlassError, OSError) as error:
        _fail(error)
    typer.echo(f"{username} administrates the cluster from the master's next start on")


def _load(path: Path | None, overrides: dict[str, Any]) -> Any:
    from master.config import load
    from master.config.load import ROOT
    from windlass.base.errors import InvalidConfig

    path = _config_path(path)
    try:
        return load(path, overrides=overrides)
    except InvalidConfig as error:
        # Problems name the file that was read.
        problems = [p.replace(ROOT, str(path or ROOT), 1) for p in error.problems]
        raise InvalidConfig(problems, what=error.what) from None


def _config_path(given: Path | None) -> Path | None:
    """None: there is no master.yaml, built-in defaults count."""
    return given or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None)


def _data_dir(given: Path | None) -> Path:
    from master.data_folder import default_folder

    return given or default_folder()


def _fail(error: Exception) -> NoReturn:
    """One line for people, and exit code 1."""
    from windlass.base.errors import InvalidConfig

    if isinstance(error, InvalidConfig):
        for problem in error.problems:
            typer.echo(f"error: {problem}", err=True)
    else:
        typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)
