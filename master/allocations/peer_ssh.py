"""How the containers of one gang log in to each other: launchers as horovodrun and DeepSpeed's start ranks by ssh.

One key pair for each allocation, derived from the cluster's secret as its token is: nothing is stored, and a master
that restarts between two containers gives the second the key of the first. The pair is the host key of each sshd too,
so that a client knows whom it talks to.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from master.allocations.task_environment import RUN_DIR
from rm_backends.base import TaskFile

SSH_DIR = f"{RUN_DIR}/ssh"
SERVER_CONFIG = f"""\
HostKey {SSH_DIR}/id_rsa
AuthorizedKeysFile {SSH_DIR}/authorized_keys
PidFile {SSH_DIR}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment yes
StrictModes no
UsePAM no
AcceptEnv *
Subsystem sftp internal-sftp
"""
CLIENT_CONFIG = f"""\
Host *
  IdentityFile {SSH_DIR}/id_rsa
  IdentitiesOnly yes
  GlobalKnownHostsFile {SSH_DIR}/known_hosts
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  PasswordAuthentication no
  LogLevel ERROR
"""


@dataclass(frozen=True, slots=True)
class PeerKeys:
    """Makes the files of ssh for the containers of an allocation."""

    secret: bytes

    def files(self, allocation_id: str) -> Iterable[TaskFile]:
        """The same key at each call. Names as launchers expect them, whatever the kind of the key."""
        key = self._key(allocation_id)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        contents = {
            "id_rsa": private,
            "id_rsa.pub": public + b"\n",
            "authorized_keys": public + b"\n",
            "known_hosts": b"* " + public + b"\n",
            "sshd_config": SERVER_CONFIG.encode(),
        }
        for name, content in contents.items():
            yield TaskFile(path=f"{SSH_DIR}/{name}", content=content, mode=0o600)
        yield TaskFile(path="/etc/ssh/ssh_config", content=CLIENT_CONFIG.encode(), mode=0o644)

    def _key(self, allocation_id: str) -> Ed25519PrivateKey:
        message = f"ssh:{allocation_id}".encode()
        return Ed25519PrivateKey.from_private_bytes(
            hmac.new(self.secret, message, hashlib.sha256).digest()
        )
