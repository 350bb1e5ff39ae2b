"""Accounting for the tests' Slurm: slurmdbd, and a MariaDB that is reached by a socket in its folder only."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

NEEDED = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
CLUSTER, ACCOUNT = "test", "research"
Runs = Callable[..., str]
"""Runs one command as the user of the site, and returns what it says."""


def require_accounting(path: str) -> None:
    """Skip, with the reason, where it is not installed."""
    missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (as root: make .make/slurm)")


class Accounting:
    """A database, and the daemon that keeps it."""

    def __init__(self, folder: Path, port: int, user: str) -> None:
        """`port`: of slurmdbd, on 127.0.0.1; `user`: whose daemons they are."""
        self._folder = folder
        self._port = port
        self._user = user
        self._database: subprocess.Popen[bytes] | None = None
        self._socket = folder / "run" / "db.s"

    @property
    def slurm_conf(self) -> str:
        """What slurm.conf says of it. Everything is enforced."""
        return f"""AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={self._port}
AccountingStoragePass={self._folder}/run/munge.s
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
"""

    @property
    def environment(self) -> dict[str, str]:
        """Without it the client library asks at the socket of the machine's own database."""
        return {"MYSQL_UNIX_PORT": str(self._socket)}

    def write_configuration(self, tokens: str = "") -> None:
        """`tokens`: lines by which it takes JSON web tokens, too."""
        path = self._folder / "etc" / "slurmdbd.conf"
        path.touch(mode=0o600)
        path.write_text(f"""AuthType=auth/munge
AuthInfo=socket={self._folder}/run/munge.s
{tokens}DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={self._port}
SlurmUser={self._user}
LogFile={self._folder}/log/slurmdbd.log
PidFile={self._folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={self._user}
StorageLoc=acct
""")

    def start_database(self, become: Sequence[str], until: Callable[..., None]) -> None:
        """Who may open its socket is its administrator: there is no other way to it, and no password."""
        if self._database is not None and self._database.poll() is None:
            return
        data = self._folder / "db"
        settings = [f"--datadir={data}", f"--user={self._user}", "--innodb-log-file-size=4M"]
        with (self._folder / "log" / "mariadb.out").open("ab") as log:
            subprocess.run(
                [
                    *(*become, "mariadb-install-db", "--no-defaults", *settings),
                    *("--skip-test-db", f"--auth-root-socket-user={self._user}"),
                ],
                stdout=log,
                stderr=log,
                check=True,
                timeout=60,
            )
            self._database = subprocess.Popen(
                [
                    *(*become, "mariadbd", "--no-defaults", *settings, "--skip-networking"),
                    *(f"--socket={self._socket}", f"--pid-file={self._folder}/run/mariadb.pid"),
                    *("--innodb-buffer-pool-size=32M", "--innodb-lock-wait-timeout=900"),
                    *("--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until("the database answers", lambda: self._sql(become, "select 1"))
        if not self._sql(become, "create database if not exists acct"):
            raise AssertionError((self._folder / "log" / "mariadb.out").read_text())

    def register(self, run: Runs) -> None:
        """The cluster, before its controller starts, and one account with the site's user in it."""
        run("sacctmgr", "-i", "-Q", "add", "cluster", CLUSTER)
        run("sacctmgr", "-i", "-Q", "add", "account", ACCOUNT)
        run("sacctmgr", "-i", "-Q", "add", "user", self._user, f"account={ACCOUNT}")

    def stop(self) -> None:
        """After its client has ended."""
        if self._database is not None:
            self._database.terminate()
            try:
                self._database.wait(10)
            except subprocess.TimeoutExpired:
                self._database.kill()
                self._database.wait()

    def _sql(self, become: Sequence[str], words: str) -> bool:
        done = subprocess.run(
            [
                *(*become, "mariadb", "--no-defaults", f"--socket={self._socket}"),
                *(f"--user={self._user}", "-e", words),
            ],
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.returncode == 0
