"""Options that commands of `windlass hpc` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.base.errors import InvalidArgument

if TYPE_CHECKING:
    from master.hpc.remote import SshLogin
    from master.hpc.site.gather import GivenPlaces

DirOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        help="Keep master.yaml, jobs and checkpoints in this folder, which all nodes see. "
        "Default: windlass in $HOME, $WORK, $PROJECT or $SCRATCH, the first that is shared.",
        show_default=False,
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Keep the database here, on a local disk. Default: ~/.local/share/windlass/hpc "
        "or a folder in /var/tmp or /tmp, the first on a local disk.",
        show_default=False,
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        help="Listen on this address, which nodes reach. Default: that of the interface to the nodes.",
        show_default=False,
    ),
]
AccountOption = Annotated[
    str, typer.Option(help="Let this account pay for jobs.", show_default=False)
]
PathOption = Annotated[
    str,
    typer.Option(
        help="Look for the commands of the batch system in these folders first, with colons between.",
        show_default=False,
    ),
]

SshOption = Annotated[
    str | None,
    typer.Option(
        "--ssh", metavar="USER@LOGIN", help="Do it on this login node.", show_default=False
    ),
]
SshKeyOption = Annotated[
    Path | None, typer.Option(help="Log in there with this private key.", show_default=False)
]
SshJumpOption = Annotated[
    str | None,
    typer.Option(metavar="USER@HOST", help="Log in through this host.", show_default=False),
]
SshWindlassOption = Annotated[
    str,
    typer.Option(
        help="The program `windlass` there. Default: that of ~/windlass-venv, else the one on PATH.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """What the user says of the site; the rest is found out."""

    dir_: DirOption = None
    data_dir: DataDirOption = None
    host: HostOption = None
    account: AccountOption = ""
    path: PathOption = ""

    def where(self) -> GivenPlaces:
        from master.hpc.site.gather import GivenPlaces

        return GivenPlaces(shared=self.dir_, data=self.data_dir, address=self.host, path=self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOptions:
    """On which login node the command runs; none: here."""

    ssh: SshOption = None
    ssh_key: SshKeyOption = None
    ssh_jump: SshJumpOption = None
    ssh_windlass: SshWindlassOption = ""

    def login(self) -> SshLogin | None:
        """Raises InvalidArgument."""
        from master.hpc.remote import SshLogin

        if self.ssh is not None:
            return SshLogin(
                spec=self.ssh, key=self.ssh_key, jump=self.ssh_jump, program=self.ssh_windlass
            )
        if self.ssh_key is not None or self.ssh_jump is not None or self.ssh_windlass:
            raise InvalidArgument("--ssh-key, --ssh-jump and --ssh-windlass need --ssh USER@LOGIN")
        return None
